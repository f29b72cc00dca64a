/**
 * @module The certificates of mutual TLS: a folder with `ca.pem` (who is trusted), `cert.pem` and `key.pem` (who this machine is). What is wrong with
 * them is found before a link is made.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { HeddleError } from "../../../util/errors.ts";

/** What a side of a link shows and trusts, as PEM. */
export interface Certificates {
  readonly folder: string;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

const hint = "heddle keys make makes such a folder, and heddle keys show says what is in it";

const problem = (what: string): HeddleError => new HeddleError("link", what, { hint });

function contentOf(folder: string, name: string): string {
  const path = join(folder, name);
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    const reason = missing ? "no such file" : (error as Error).message;
    throw new HeddleError("file", `cannot read ${path}: ${reason}`, { hint, cause: error });
  }
}

/** Why a file is not read, without OpenSSL's words where it has not even the first line. */
const reasonOf = (pem: string, title: string, error: unknown): string =>
  pem.includes(title) ? (error as Error).message : "there is none in it";

/** A certificate of a file. @throws HeddleError `link` */
export function readCertificate(pem: string, path: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw problem(`${path} is not a certificate in PEM: ${reasonOf(pem, "CERTIFICATE-----", error)}`);
  }
}

/** What is wrong with the dates of a certificate; undefined for nothing. */
export function datesProblem({ validFrom, validTo }: X509Certificate, now: number = Date.now()): string | undefined {
  if (now < Date.parse(validFrom)) return `is not valid before ${validFrom}`;
  return now > Date.parse(validTo) ? `has expired on ${validTo}` : undefined;
}

/**
 * Reads the folder, and checks that its files belong together and are valid today.
 *
 * @throws HeddleError `file` for a file that is missing, `link` naming what is wrong
 */
export function readCertificates(place: string): Certificates {
  const folder = resolve(place);
  const [ca, cert, key] = ["ca.pem", "cert.pem", "key.pem"].map((name) => contentOf(folder, name)) as [
    string,
    string,
    string,
  ];
  const [authority, own] = [
    readCertificate(ca, join(folder, "ca.pem")),
    readCertificate(cert, join(folder, "cert.pem")),
  ];
  for (const [name, one] of [
    ["ca.pem", authority],
    ["cert.pem", own],
  ] as const) {
    const dates = datesProblem(one);
    if (dates !== undefined) throw problem(`the certificate ${join(folder, name)} ${dates}`);
  }
  if (!own.checkIssued(authority) || !own.verify(authority.publicKey))
    throw problem(`${join(folder, "cert.pem")} is not signed by ${join(folder, "ca.pem")}`);
  let fits = false;
  try {
    fits = own.checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    throw problem(
      `${join(folder, "key.pem")} is not a private key in PEM: ${reasonOf(key, "PRIVATE KEY-----", error)}`,
    );
  }
  if (!fits) throw problem(`${join(folder, "key.pem")} is not the key of ${join(folder, "cert.pem")}`);
  return { folder, ca, cert, key };
}
