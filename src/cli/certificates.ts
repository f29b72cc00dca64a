/** @module The option `--tls`. */
import { resolve } from "node:path";
import { readCertificates } from "../executors/remote/tls/certificates.ts";
import { readEnvironment, setVariables } from "../util/settings.ts";

/** Has links, also those of processes that this one starts, use certificates; what is wrong with them is an error here. @throws HeddleError `link`, `file` */
export function useCertificates(folder: string | undefined): void {
  if (folder !== undefined) setVariables({ HEDDLE_TLS: resolve(folder) });
  const { tls } = readEnvironment();
  if (tls !== undefined) readCertificates(tls);
}
