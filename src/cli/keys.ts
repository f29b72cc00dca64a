/** @module `heddle keys`: certificates for links by mutual TLS. */
import type { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { isIP, isIPv6 } from "node:net";
import { join, resolve } from "node:path";
import { domainToASCII } from "node:url";
import { Command } from "commander";
import { datesProblem, readCertificate, readCertificates } from "../executors/remote/tls/certificates.ts";
import { makeFolder } from "../io/make-folder.ts";
import { requires } from "../runtime/packages.ts";
import { HeddleError } from "../util/errors.ts";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

const notes = `
A folder has ca.pem, the certificate of who is trusted; cert.pem and key.pem, the certificate of a machine and its key; and where it was made
first ca-key.pem, with which others are made: that one stays where it is.

  heddle keys make keys --names a.example,10.0.0.1      a CA, and the certificate of a machine
  heddle keys make keys-b --ca keys --names b.example   the certificate of another one by the same CA
  heddle worker --tls keys-b                            each machine gets its folder, without ca-key.pem
  heddle run train.ts --on b.example:4101 --tls keys
`;

/** What is used of the library of certificates. */
type Library = typeof import("@peculiar/x509");

function library(): Library {
  for (const load of requires()) {
    try {
      // What the library injects its parts by.
      load("reflect-metadata");
      return load("@peculiar/x509") as Library;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new HeddleError("file", "there is no @peculiar/x509 here, which makes certificates", {
    hint: "npm install @peculiar/x509@2.2.0 reflect-metadata@0.2.2; or make ca.pem, cert.pem and key.pem by another tool",
  });
}

/** P-256, whose keys TLS 1.3 has everywhere. */
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const millisecondsPerDay = 86_400_000;
/** Days that a CA is valid. */
const authorityDays = 3650;
/** Names of the own machine, which every certificate has. */
const ownNames = ["localhost", "127.0.0.1", "::1"];

/** IPv6 in its short form, anything else as it is. */
const shortened = (text: string): string => (isIPv6(text) ? new URL(`http://[${text}]`).hostname.slice(1, -1) : text);

/** A name or address as TLS compares it: names in ASCII. */
function hostOf(text: string): string {
  if (isIP(text) !== 0) return shortened(text);
  const name = /^[^\s:/?#@]+$/.test(text) ? domainToASCII(text) : "";
  if (/^(\*\.)?[\w-]+(\.[\w-]+)*$/.test(name) && isIP(name) === 0) return name;
  throw new HeddleError("option", `keys make: '${text}' is not a name or an address of a machine`, {
    hint: "--names takes names and addresses without ports, with commas between them",
  });
}

interface MakeFlags {
  readonly names: readonly string[];
  readonly ca?: string;
  readonly days: number;
}

interface Authority {
  readonly certificate: InstanceType<Library["X509Certificate"]>;
  readonly key: Key;
}

type Key = Parameters<typeof crypto.subtle.exportKey>[1];

interface Pair {
  readonly publicKey: Key;
  readonly privateKey: Key;
}

const newPair = async (): Promise<Pair> =>
  (await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])) as unknown as Pair;

const dates = (days: number): { notBefore: Date; notAfter: Date } => ({
  // Clocks may differ a little.
  notBefore: new Date(Date.now() - 300_000),
  notAfter: new Date(Date.now() + days * millisecondsPerDay),
});

async function keyPem({ PemConverter }: Library, key: Key): Promise<string> {
  return PemConverter.encode(await crypto.subtle.exportKey("pkcs8", key), "PRIVATE KEY");
}

/** Writes a file that only its owner reads if it is a key; never over one that is there. */
function put(folder: string, name: string, text: string): void {
  const path = join(folder, name);
  try {
    writeFileSync(path, `${text.trim()}\n`, { flag: "wx", mode: name.endsWith("key.pem") ? 0o600 : 0o644 });
  } catch (error) {
    throw new HeddleError("file", `cannot write ${path}: ${(error as Error).message}`, { cause: error });
  }
}

/** The CA of a folder; made there if there is none. */
async function authorityIn(x509: Library, folder: string, mayMake: boolean): Promise<Authority> {
  const [certificatePath, keyPath] = [join(folder, "ca.pem"), join(folder, "ca-key.pem")];
  if (existsSync(certificatePath) && existsSync(keyPath)) {
    const [pem] = x509.PemConverter.decode(readFileSync(keyPath, "utf8"));
    if (pem === undefined) throw new HeddleError("link", `${keyPath} is not a private key in PEM`);
    const key = await crypto.subtle.importKey("pkcs8", pem, algorithm, true, ["sign"]);
    readCertificate(readFileSync(certificatePath, "utf8"), certificatePath);
    return { certificate: new x509.X509Certificate(readFileSync(certificatePath, "utf8")), key };
  }
  if (!mayMake || existsSync(certificatePath))
    throw new HeddleError(
      "file",
      `${folder} has no CA that can sign: it lacks ${existsSync(certificatePath) ? "ca-key.pem" : "ca.pem"}`,
      {
        hint: "name the folder in which the CA was made by --ca",
      },
    );
  const keys = await newPair();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: "CN=Heddle CA",
    ...dates(authorityDays),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  put(folder, "ca.pem", certificate.toString("pem"));
  put(folder, "ca-key.pem", await keyPem(x509, keys.privateKey));
  return { certificate, key: keys.privateKey };
}

/** Makes the certificate of a machine, and a CA where there is none. */
async function make(place: string, { names: given, ca, days }: MakeFlags): Promise<void> {
  const names = given.map(hostOf);
  const x509 = library();
  const folder = resolve(place);
  await makeFolder(folder);
  if (existsSync(join(folder, "cert.pem")))
    throw new HeddleError("file", `${folder} has a certificate already`, {
      hint: "remove cert.pem and key.pem for a new one",
    });
  const authority = await authorityIn(x509, resolve(ca ?? folder), ca === undefined);
  if (ca !== undefined && !existsSync(join(folder, "ca.pem")))
    put(folder, "ca.pem", authority.certificate.toString("pem"));
  const keys = await newPair();
  const all = [...new Set([...names, ...ownNames])];
  const certificate = await x509.X509CertificateGenerator.create({
    subject: `CN=${names[0] ?? "localhost"}`,
    issuer: authority.certificate.subject,
    ...dates(days),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: authority.key,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
      new x509.SubjectAlternativeNameExtension(
        all.map((value) => ({ type: isIP(value) === 0 ? ("dns" as const) : ("ip" as const), value })),
      ),
      await x509.AuthorityKeyIdentifierExtension.create(authority.certificate.publicKey),
    ],
  });
  put(folder, "cert.pem", certificate.toString("pem"));
  put(folder, "key.pem", await keyPem(x509, keys.privateKey));
  console.log(
    `${folder}: a certificate for ${all.join(", ")}, until ${certificate.notAfter.toISOString().slice(0, 10)}`,
  );
}

/** Says what a folder has, and what is wrong with it. */
function show(place: string): void {
  const folder = resolve(place);
  const line = (name: string): void => {
    const path = join(folder, name);
    if (!existsSync(path)) return;
    const one: X509Certificate = readCertificate(readFileSync(path, "utf8"), path);
    const names = (one.subjectAltName?.split(", ") ?? []).map((name) =>
      shortened(name.replace(/^(DNS|IP Address):/, "")),
    );
    const all = names.length === 0 ? "" : `, for ${names.join(", ")}`;
    console.log(`${name}: ${one.subject}${all}; ${datesProblem(one) ?? `valid until ${one.validTo}`}`);
    console.log(`  SHA-256 ${one.fingerprint256}`);
  };
  for (const name of ["ca.pem", "cert.pem"]) line(name);
  readCertificates(folder);
  const signs = existsSync(join(folder, "ca-key.pem")) ? "; it can sign others (ca-key.pem)" : "";
  console.log(`links by TLS can use this folder${signs}`);
}

/** The `keys` command. */
export function keysCommand({ finish }: CommandContext): Command {
  const command = new Command("keys")
    .summary("make and show certificates for links by mutual TLS")
    .description("Makes and shows certificates for links by mutual TLS (--tls, HEDDLE_TLS).")
    .addHelpText("after", notes);
  command
    .command("make")
    .description("Makes the certificate of a machine, and a CA where the folder has none.")
    .argument("<folder>", "where ca.pem, cert.pem and key.pem are put")
    .option(
      "--names <hosts>",
      "names and addresses by which others reach this machine, with commas; localhost, 127.0.0.1 and ::1 are added",
      (text) =>
        text
          .split(",")
          .map((name) => name.trim())
          .filter((name) => name !== ""),
      [] as string[],
    )
    .option("--ca <folder>", "the folder in which the CA was made (default: this one)")
    .option("--days <number>", "days that the certificate is valid", wholeNumber(1, 36_500), 365)
    .action(async (folder: string, flags: MakeFlags) => {
      await make(folder, flags);
      finish(exitStatus.ok);
    });
  command
    .command("show")
    .description("Says whose certificates a folder has, until when they are valid, and what is wrong with them.")
    .argument("<folder>", "the folder")
    .action((folder: string) => {
      show(folder);
      finish(exitStatus.ok);
    });
  return command;
}
