// Secrets, and the few operations of cryptography on them.
import { Buffer } from "node:buffer";
import * as crypto from "node:crypto";
import { createHash, createHmac, createPublicKey, timingSafeEqual, type KeyObject } from "node:crypto";
import type { Scheme } from "./schemes.js";

export interface Secret {
  text: string;
  /** Of an HMAC. */
  key?: Buffer;
  public?: KeyObject;
}

/** What is wrong with a secret; the text never holds it. */
export class Fault extends Error {}
const fault = (text: string): never => {
  throw new Fault(text);
};

/** Makes a secret ready for its scheme; throws Fault. */
export function prepare(scheme: Scheme, name: string, text: string): Secret {
  if (text === "") fault("is empty");
  if (scheme.proof === "standard" || (scheme.proof === "gitlab" && text.startsWith("whsec_"))) {
    if (text.startsWith("whsk_")) fault("is a private key (whsk_), which stays with its sender; give the public one (whpk_)");
    if (text.startsWith("whpk_"))
      return { text, public: ed25519(base64(text.slice(5), 32) ?? fault("is not the base64 of a public key after whpk_")) };
    const key =
      base64(text.replace(/^whsec_/, ""), 0) ?? fault("is not base64, with or without whsec_ before it, and no public key (whpk_…)");
    return { text, key: long(key) };
  }
  if (scheme.proof === "ed25519")
    return { text, public: ed25519(decode("hex", text, 32) ?? fault("is not a public key of 64 hexadecimal digits")) };
  if (scheme.proof === "ecdsa") {
    const key = createPublicKey({ key: base64(text, 0) ?? fault("is not the base64 of a public key"), format: "der", type: "spki" });
    if (key.asymmetricKeyDetails?.namedCurve !== "prime256v1") fault("is not a public key of ECDSA on P-256");
    return { text, public: key };
  }
  if (scheme.proof === "adyen") return { text, key: decode("hex", text, text.length / 2) ?? fault("is not hexadecimal") };
  if (name === "hmac" && text.startsWith("hex:"))
    return { text, key: long(decode("hex", text.slice(4), (text.length - 4) / 2) ?? fault("is not hexadecimal")) };
  if (name === "hmac" && text.startsWith("base64:")) return { text, key: long(base64(text.slice(7), 0) ?? fault("is not base64")) };
  if (scheme.proof === "token" || scheme.proof === "gitlab" || scheme.proof === "basic") return { text };
  return { text, key: Buffer.from(text) };
}

const long = (key: Buffer) => (key.length < 8 ? fault(`has ${key.length} bytes; a secret has at least 8`) : key);
const ed25519 = (raw: Buffer) => createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") }, format: "jwk" });
export const mac = (algorithm: string, key: Buffer, signed: Uint8Array) => createHmac(algorithm, key).update(signed).digest();
export const equal = (a: Buffer, b: Buffer) => a.length === b.length && timingSafeEqual(a, b);
/** Compares in a time that depends on neither text. */
export const sameText = (a: string, b: string) =>
  timingSafeEqual(createHash("sha256").update(a).digest(), createHash("sha256").update(b).digest());
/** The name of a script in Redis. */
export const sha1 = (text: string) => createHash("sha1").update(text).digest("hex");

/** The SHA-256 in hexadecimal. Node has `hash`, which takes half the time, since 20.12. */
export const sha256: (data: Uint8Array | string) => string = crypto.hash
  ? (data) => crypto.hash("sha256", data)
  : (data) => createHash("sha256").update(data).digest("hex");

/** The bytes of a text that has one spelling only; undefined if it is not of that size (0: any). */
export function base64(text: string, size: number): Buffer | undefined {
  const raw = Buffer.from(text, "base64");
  return raw.length > 0 && raw.toString("base64") === text && (size === 0 || raw.length === size) ? raw : undefined;
}

export function decode(encoding: "hex" | "base64", text: string, size: number): Buffer | undefined {
  if (encoding === "base64") return base64(text, size);
  return text.length === 2 * size && /^[0-9a-fA-F]*$/.test(text) ? Buffer.from(text, "hex") : undefined;
}

/** The key for a call of another service in this step of a handler. Every delivery of the event gives the same one. */
export function idempotencyKey(source: string, id: string, step: string): string {
  const part = (text: string) => `${Buffer.byteLength(text)}:${text}\n`;
  return `idk_${sha256(`grapnel:idempotency:1\n${part(source)}${part(id)}${part(step)}`).slice(0, 32)}`;
}
