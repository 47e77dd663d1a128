// A sender and its requests, as callers know them.
import type { SchemeName } from "./schemes.js";

/** A sender, and how its requests are verified. */
export interface Source {
  /** A part of each key, so that ids of two senders never meet. */
  name: string;
  /** `standard` (Standard Webhooks) unless it is said. */
  scheme?: SchemeName;
  /** The secrets or public keys that are valid now; during a rotation the old and the new one. */
  secrets: readonly string[];
  /** Seconds between the signature's time and now, in both directions (300). */
  tolerance?: number;
  /** The address that the sender was given, for schemes that sign it behind a proxy. */
  publicUrl?: string;
  /** For how many seconds the sender repeats an event; for providers known. */
  span?: number;
  /** Makes the key of the body. Two events with equal bodies are then one event. */
  keyFromBody?: { form: "raw" | "canonical"; ignore?: readonly string[] };
  /** Takes an id that the signature does not cover: whoever has seen one signed request can repeat it under a new id. */
  trustUnsignedId?: boolean;

  // Of the schemes hmac, api_key, basic and none:
  header?: string;
  prefix?: string;
  algorithm?: "sha1" | "sha256" | "sha512";
  encoding?: "hex" | "base64";
  /** Template of the signed text, of {body}, {timestamp}, {id}, {url}, {method} and {path}. */
  signed?: string;
  timestampHeader?: string;
  idHeader?: string;
  typeHeader?: string;
  username?: string;
}

export interface Incoming {
  method: string;
  url: string;
  headers: HeaderValues;
  body: Uint8Array;
}

/** What a request's headers are read by; `Headers` has it. */
export interface HeaderValues extends Iterable<[string, string]> {
  get(name: string): string | null;
  has(name: string): boolean;
}

/** Names and values in turns, as node:http has them. A request is verified by three or four of its headers; to make a `Headers` of all
 * costs more than to look for these. */
export class RawHeaders implements HeaderValues {
  constructor(private readonly list: readonly string[]) {}

  /** The value; values of one name are joined as `Headers` joins them. */
  get(name: string): string | null {
    const { list } = this;
    const lower = name.toLowerCase();
    let found: string | null = null;
    for (let i = 0; i < list.length; i += 2) {
      const own = list[i]!;
      if (own.length === lower.length && own.toLowerCase() === lower) found = found === null ? list[i + 1]! : `${found}, ${list[i + 1]}`;
    }
    return found;
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  *[Symbol.iterator](): Iterator<[string, string]> {
    for (let i = 0; i < this.list.length; i += 2) yield [this.list[i]!, this.list[i + 1]!];
  }
}

export interface Verified {
  id: string;
  /** It is read from the request when it is asked for. */
  readonly type: string;
  /** Headers whose value is a secret. */
  secretHeaders: string[];
}

/** A request that is not accepted, with its outcome. */
export class Refused extends Error {
  constructor(
    readonly outcome: "unverified" | "expired" | "malformed",
    reason: string,
  ) {
    super(reason);
  }
}
