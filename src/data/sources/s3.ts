/** @module The client of object stores: options that AWS's variables imply. */
import { ownVariables } from "../../util/settings.ts";

/** Options of the client. Other stores than Amazon's have no host for each bucket, and any region. */
export function s3Options(): { readonly forcePathStyle: boolean; readonly region?: string } {
  const variables = ownVariables();
  const isOther = (variables["AWS_ENDPOINT_URL_S3"] ?? variables["AWS_ENDPOINT_URL"]) !== undefined;
  return {
    forcePathStyle: isOther,
    ...(isOther && variables["AWS_REGION"] === undefined ? { region: "us-east-1" } : {}),
  };
}
