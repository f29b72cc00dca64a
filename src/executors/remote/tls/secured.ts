/**
 * @module A link by mutual TLS 1.3, over which both sides then prove the secret: each shows a certificate that the CA of the other has signed, and
 * the side that has dialled compares the name. Nothing of Heddle's is parsed before.
 */
import { isIP, type Socket } from "node:net";
import { connect, createServer, type SecureVersion, type TLSSocket } from "node:tls";
import { HeddleError } from "../../../util/errors.ts";
import type { Side } from "../seal/records.ts";
import type { Certificates } from "./certificates.ts";

/** What the other side is called. */
export interface Peer {
  /** Its name in messages. */
  readonly peer: string;
  /** The host that this side has dialled, which the certificate must name. */
  readonly host?: string | undefined;
  /** Milliseconds for the handshake. */
  readonly timeout: number;
}

const version: SecureVersion = "TLSv1.3";

/** What OpenSSL's reasons mean for a link, by their codes. */
function meaning(code: string, { folder }: Certificates, host: string): string | undefined {
  switch (code) {
    case "CERT_HAS_EXPIRED":
      return "its certificate has expired";
    case "CERT_NOT_YET_VALID":
      return "its certificate is not valid yet: are both clocks right?";
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `its certificate is not for ${host}`;
    case "UNABLE_TO_GET_ISSUER_CERT":
    case "UNABLE_TO_GET_ISSUER_CERT_LOCALLY":
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "CERT_SIGNATURE_FAILURE":
      return `its certificate is not signed by the CA in ${folder}`;
    case "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE":
      return "it shows no certificate";
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_HTTP_REQUEST":
    case "ERR_SSL_UNSUPPORTED_PROTOCOL":
      return "it does not speak TLS 1.3: does it have HEDDLE_TLS?";
    case "ECONNRESET":
      return "it has ended the handshake: does it have HEDDLE_TLS? If so, it does not trust this side's certificate";
    default:
      return undefined;
  }
}

/**
 * Makes a link of a connected socket.
 *
 * @throws HeddleError `link` naming why the other side is not trusted, or that it does not speak TLS
 */
export function secured(socket: Socket, side: Side, own: Certificates, { peer, host, timeout }: Peer): Promise<Socket> {
  const { ca, cert, key } = own;
  const common = { ca, cert, key, minVersion: version, maxVersion: version };
  return new Promise((resolve, reject) => {
    const name = host ?? socket.remoteAddress ?? "";
    const late = setTimeout(() => fail(Object.assign(new Error("no TLS handshake in time"), { code: "" })), timeout);
    const fail = (error: NodeJS.ErrnoException | string): void => {
      clearTimeout(late);
      socket.on("error", () => {});
      socket.destroy();
      const code = typeof error === "string" ? error : (error.code ?? "");
      const text = meaning(code, own, name) ?? (typeof error === "string" ? error : error.message);
      reject(new HeddleError("link", `${peer}: ${text}`, typeof error === "string" ? {} : { cause: error }));
    };
    const take = (link: TLSSocket): void => {
      clearTimeout(late);
      link.removeAllListeners("error");
      resolve(link);
    };
    if (side === "driver") {
      const link = connect({ ...common, socket, host: name, ...(isIP(name) === 0 ? { servername: name } : {}) });
      link.once("secureConnect", () => take(link));
      link.on("error", fail);
      return;
    }
    const server = createServer({ ...common, requestCert: true, rejectUnauthorized: false });
    server.once("tlsClientError", fail);
    server.once("secureConnection", (link) => {
      link.on("error", fail);
      const shown = Object.keys(link.getPeerCertificate()).length > 0;
      if (link.authorized) take(link);
      else fail(shown ? String(link.authorizationError) : "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE");
    });
    server.emit("connection", socket);
  });
}
