// Is a request from its sender, and which event is it?
import { Buffer } from "node:buffer";
import { verify as verifyKey } from "node:crypto";
import { canonical, exact, Members, parseJSON, pathOf, scalar, utf8, valueAt } from "./json.js";
import { schemes, type Place, type Scheme } from "./schemes.js";
import { base64, decode, equal, Fault, mac, prepare, sameText, sha256, type Secret } from "./secrets.js";
import { Refused, type Incoming, type Source, type Verified } from "./source.js";

const maxSignatures = 10;
const ofScheme: Record<string, (keyof Source)[]> = {
  hmac: ["header", "algorithm", "encoding", "prefix", "signed", "timestampHeader", "idHeader", "typeHeader"],
  api_key: ["header", "prefix", "idHeader", "typeHeader"],
  basic: ["username", "idHeader", "typeHeader"],
  none: ["idHeader", "typeHeader"],
};

/** Verifies the requests of one source. */
export class Verifier {
  private readonly scheme: Scheme;
  private readonly secrets: Secret[];
  readonly span: number;

  constructor(private readonly source: Source) {
    const name = source.scheme ?? "standard";
    if (!Object.hasOwn(schemes, name))
      throw new TypeError(`source.scheme ${JSON.stringify(name)}: use one of ${Object.keys(schemes).join(", ")}`);
    for (const setting of [
      "header",
      "prefix",
      "algorithm",
      "encoding",
      "signed",
      "timestampHeader",
      "idHeader",
      "typeHeader",
      "username",
    ] as const)
      if (source[setting] !== undefined && !ofScheme[name]?.includes(setting))
        throw new TypeError(`source.${setting}: the scheme ${name} has no such setting`);
    const { header, prefix, algorithm, encoding, signed, timestampHeader, idHeader, typeHeader } = source;
    const own = { header: header?.toLowerCase(), prefix, algorithm, encoding, signed };
    this.scheme = {
      ...(schemes[name] as Scheme),
      ...Object.fromEntries(Object.entries(own).filter(([, v]) => v !== undefined)),
      ...(timestampHeader && { timestamp: [`header:${timestampHeader}`] }),
      ...(idHeader && { id: [`header:${idHeader}`], unsignedId: !signed?.includes("{id}") }),
      ...(typeHeader && { type: [`header:${typeHeader}`] }),
    };
    const s = this.scheme;
    if (s.proof === "hmac" && !s.header && !s.signature) throw new TypeError("source.header: say which header has the signature");
    for (const [, field] of (s.signed ?? "").matchAll(/\{(\w*)\}/g))
      if (!["body", "timestamp", "id", "url", "method", "path", "token"].includes(field!))
        throw new TypeError(`source.signed: {${field}} is no field`);
    if (s.proof !== "none" && (source.secrets.length === 0 || source.secrets.length > maxSignatures))
      throw new TypeError(`source.secrets: give 1 to ${maxSignatures} secrets; there are ${source.secrets.length}`);
    this.secrets = source.secrets.map((text, i) => {
      try {
        return prepare(s, name, text);
      } catch (e) {
        // The cause may hold the secret.
        throw new TypeError(`source.secrets[${i}] ${e instanceof Fault ? e.message : "cannot be read"}`);
      }
    });
    if (!source.keyFromBody && (s.unsignedId || !s.id) && !source.trustUnsignedId)
      throw new TypeError(
        `source ${JSON.stringify(source.name)}: the scheme ${name} signs no event id. Set keyFromBody, or ` +
          `trustUnsignedId if a repetition under another id does no harm`,
      );
    source.keyFromBody?.ignore?.forEach(pathOf);
    this.span = source.span ?? s.span ?? 0;
  }

  /** Throws Refused for a request that does not verify. `now` is in milliseconds. */
  verify(request: Incoming, now: number): Verified {
    const attempt = new Attempt(this.source, this.scheme, this.secrets, request, now);
    attempt.check();
    const secretHeaders = ["token", "basic", "gitlab"].includes(this.scheme.proof) && this.scheme.header ? [this.scheme.header] : [];
    const { type } = this.scheme;
    return {
      id: this.key(attempt, request.body),
      get type() {
        return attempt.find(type);
      },
      secretHeaders,
    };
  }

  /** The type of a request that was verified and stored before. */
  typeOf({ headers, body }: { headers: Record<string, string>; body: Uint8Array }): string {
    const request = { method: "POST", url: "http://localhost/", headers: new Headers(headers), body };
    return new Attempt(this.source, this.scheme, this.secrets, request, 0).find(this.scheme.type);
  }

  /** The key of a request that was verified before. */
  keyOf(request: Incoming): string {
    return this.key(new Attempt(this.source, this.scheme, this.secrets, request, 0), request.body);
  }

  private key(attempt: Attempt, body: Uint8Array): string {
    const { keyFromBody } = this.source;
    if (keyFromBody) {
      try {
        return sha256(keyFromBody.form === "raw" ? body : canonical(body, keyFromBody.ignore));
      } catch {
        throw new Refused("malformed", "The body is not JSON.");
      }
    }
    const id = attempt.find(this.scheme.id);
    if (id === "") throw new Refused("malformed", "The event id is missing.");
    const type = this.scheme.perType ? attempt.find(this.scheme.type) : "";
    return type === "" ? id : `${type}:${id}`;
  }
}

/** One request on its way through the checks. */
class Attempt {
  private readonly bytes: Buffer;
  private parsed?: { json: unknown };

  constructor(
    private readonly source: Source,
    private readonly scheme: Scheme,
    private readonly secrets: Secret[],
    private readonly request: Incoming,
    private readonly now: number,
  ) {
    this.bytes = Buffer.from(request.body.buffer, request.body.byteOffset, request.body.byteLength);
  }

  check(): void {
    switch (this.scheme.proof) {
      case "none":
        return;
      case "standard":
        return this.standard(this.scheme.header!);
      case "gitlab":
        return this.secrets.some((s) => s.key) && this.request.headers.has("webhook-signature") ? this.standard("webhook-") : this.token();
      case "token":
        return this.token();
      case "basic":
        return this.basic();
      case "twilio":
        return this.twilio();
      case "adyen":
        return this.adyen();
      default:
        return this.signature();
    }
  }

  /** The value of a header; Headers join two values with a comma, and receivers differ in the one they use. */
  private single(name: string): string {
    const value = this.request.headers.get(name) ?? "";
    if (value === "") throw new Refused("malformed", `The header ${name} is missing.`);
    if (value.includes(", ")) throw new Refused("malformed", `The header ${name} is there more than once.`);
    return value;
  }

  private proof(name: string): string {
    if (!this.request.headers.get(name)) unverified();
    return this.scheme.pairs ? this.request.headers.get(name)! : this.single(name);
  }

  private fresh(at: number): void {
    if (Number.isNaN(at)) throw new Refused("malformed", "The signature's time cannot be read.");
    if (Math.abs(this.now - at) > (this.source.tolerance ?? 300) * 1000)
      throw new Refused("expired", "The signature's time is outside of the tolerance.");
  }

  private standard(prefix: string): void {
    const { headers } = this.request;
    if (prefix !== "webhook-" && !headers.has(`${prefix}signature`) && !headers.has(`${prefix}id`)) prefix = "webhook-";
    if (!headers.get(`${prefix}signature`)) unverified();
    const id = this.single(`${prefix}id`);
    if (id.includes(".") || Buffer.byteLength(id) > 256) throw new Refused("malformed", "The event id cannot be read.");
    const stamp = this.single(`${prefix}timestamp`);
    if (!/^(0|[1-9][0-9]{0,11})$/.test(stamp)) throw new Refused("malformed", "The signature's time cannot be read.");
    const entries = this.single(`${prefix}signature`)
      .split(" ")
      .filter((e) => e !== "");
    if (entries.length > maxSignatures) throw new Refused("malformed", "There are too many signatures.");
    this.fresh(Number(stamp) * 1000);
    const signed = Buffer.concat([Buffer.from(`${id}.${stamp}.`), this.bytes]);
    let found = false;
    for (const entry of entries) {
      const v1 = entry.startsWith("v1,") && base64(entry.slice(3), 32);
      const v1a = entry.startsWith("v1a,") && base64(entry.slice(4), 64);
      for (const s of this.secrets) {
        if (v1 && s.key && equal(mac("sha256", s.key, signed), v1)) found = true;
        if (v1a && s.public && verifyKey(null, signed, s.public, v1a)) found = true;
      }
    }
    if (!found) unverified();
  }

  private signature(): void {
    const s = this.scheme;
    const { stamp, texts } = this.offered();
    if (s.pairs || s.timestamp) {
      if (stamp === "") throw new Refused("malformed", "The signature's time is missing.");
      this.fresh(parseStamp(stamp));
    }
    const size = s.proof === "ed25519" ? 64 : s.proof === "ecdsa" ? 0 : { sha1: 20, sha256: 32, sha512: 64 }[s.algorithm!];
    const given = texts.flatMap((text) => decode(s.encoding!, text, size) ?? []);
    const fields: Record<string, string> = { timestamp: stamp, method: this.request.method, path: pathAndQuery(this.request.url) };
    if (s.signed!.includes("{id}") && (fields.id = this.find(s.id)) === "") throw new Refused("malformed", "The event id is missing.");
    if (s.token) fields.token = this.find(s.token);
    let found = false;
    for (const url of s.signed!.includes("{url}") ? this.urls() : [""]) {
      // A split at {body} keeps its bytes as they came.
      const parts = s
        .signed!.split("{body}")
        .map((p) => Buffer.from(p.replace(/\{(\w+)\}/g, (_, name: string) => (name === "url" ? url : fields[name]!))));
      const signed = Buffer.concat(parts.flatMap((p, i) => (i === 0 ? [p] : [this.bytes, p])));
      for (const secret of this.secrets)
        for (const g of given) {
          if (
            secret.public
              ? verifyKey(s.proof === "ecdsa" ? "sha256" : null, signed, secret.public, g)
              : equal(mac(s.algorithm!, secret.key!, signed), g)
          )
            found = true;
        }
    }
    if (!found) unverified();
  }

  private offered(): { stamp: string; texts: string[] } {
    const s = this.scheme;
    if (s.signature) {
      const text = this.find(s.signature);
      return text === "" ? unverified() : { stamp: this.find(s.timestamp), texts: [text] };
    }
    const value = this.proof(s.header!);
    if (s.pairs) {
      const [separator, time, sum] = s.pairs;
      const pairs = value.split(separator).map((p) => p.trim().split(/=(.*)/s));
      const stamps = pairs.filter(([name]) => name === time);
      const texts = pairs.filter(([name]) => name === sum).map(([, text]) => text ?? "");
      if (stamps.length !== 1 || texts.length === 0 || texts.length > maxSignatures) unverified();
      return { stamp: stamps[0]![1] ?? "", texts };
    }
    const prefix = s.prefix ?? "";
    return value.startsWith(prefix) ? { stamp: this.find(s.timestamp), texts: [value.slice(prefix.length)] } : unverified();
  }

  private token(): void {
    const value = this.proof(this.scheme.header!);
    const prefix = this.scheme.prefix ?? "";
    const matches = this.secrets.filter((s) => !(this.scheme.proof === "gitlab" && s.key) && sameText(value.slice(prefix.length), s.text));
    if (!value.startsWith(prefix) || matches.length === 0) unverified();
  }

  private basic(): void {
    const [kind, encoded] = this.proof("authorization").split(" ");
    const [, name, password] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? "", "base64").toString()) ?? [];
    const named = sameText(name ?? "", this.source.username ?? "");
    const matches = this.secrets.filter((s) => sameText(password ?? "", s.text));
    if (kind?.toLowerCase() !== "basic" || name === undefined || !named || matches.length === 0) unverified();
  }

  /** HMAC of the URL and a form's fields, sorted by name; of any other body the URL has the hash. */
  private twilio(): void {
    const given = this.proof("x-twilio-signature");
    const settings = this.request.headers.get("x-twilio-webhooks-signature-settings") ?? "";
    const named = [...settings.matchAll(/(?:^|,)\s*algorithm\s*=\s*([^,\s]+)/g)].map(([, a]) => a!.toUpperCase());
    const algorithm = named.length > 1 ? undefined : { HMAC_SHA1: "sha1", HMAC_SHA256: "sha256" }[named[0] ?? "HMAC_SHA1"];
    const signature = algorithm && base64(given, algorithm === "sha1" ? 20 : 32);
    if (!algorithm || !signature) return unverified();
    const hash = new URL(this.request.url).searchParams.get("bodySHA256");
    const { form } = this;
    let fields = "";
    if (hash) {
      if (!sameText(hash.toLowerCase(), sha256(this.bytes))) unverified();
    } else {
      if ([...form].length === 0 && this.bytes.length > 0) unverified();
      for (const name of [...new Set(form.keys())].sort()) for (const v of [...new Set(form.getAll(name))].sort()) fields += name + v;
    }
    let found = false;
    for (const url of this.urls())
      for (const s of this.secrets) if (equal(mac(algorithm, s.key!, Buffer.from(url + fields)), signature)) found = true;
    if (!found) unverified();
  }

  /** The addresses to which the sender may have sent it: proxies change the scheme, and providers differ in naming the port. */
  private urls(): string[] {
    const { host, search } = new URL(this.request.url);
    const path = pathAndQuery(this.request.url);
    const { publicUrl } = this.source;
    const bases = publicUrl
      ? [search ? publicUrl.split("?")[0] + search : publicUrl, publicUrl.replace(/\/$/, "") + path]
      : [`https://${host}${path}`, `http://${host}${path}`];
    return bases.flatMap((base) => {
      const [, scheme, host, port, rest] = /^(https?):\/\/([^/?#:]+|\[[^\]]*\])(:[0-9]+)?(.*)$/s.exec(base) ?? [];
      return scheme ? [base, `${scheme}://${host}${port ? "" : scheme === "https" ? ":443" : ":80"}${rest}`] : [base];
    });
  }

  /** Eight fields joined by colons. No name may occur twice, and no other value have a colon: nothing else of the body is signed. */
  private adyen(): void {
    const only = (of: unknown, name: string): unknown => {
      const found = of instanceof Members ? of.list.filter(([n]) => n.toLowerCase() === name.toLowerCase()) : [];
      return found.length > 1 ? unverified() : found[0]?.[0] === name ? found[0][1] : undefined;
    };
    const items = only(this.json, "notificationItems");
    if (!Array.isArray(items) || items.length !== 1) return unverified();
    const it = only(items[0], "NotificationRequestItem");
    const amount = only(it, "amount");
    const places: [unknown, string][] = [
      [it, "pspReference"],
      [it, "originalReference"],
      [it, "merchantAccountCode"],
      [it, "merchantReference"],
      [amount, "value"],
      [amount, "currency"],
      [it, "eventCode"],
      [it, "success"],
    ];
    const signed = places.map(([of, name]) => {
      const value = only(of, name);
      const text = typeof value === "boolean" ? String(value) : scalar(value);
      return name !== "merchantReference" && text.includes(":") ? unverified() : text;
    });
    const given = base64(scalar(only(only(it, "additionalData"), "hmacSignature")), 32);
    if (!given || !this.secrets.some((s) => equal(mac("sha256", s.key!, Buffer.from(signed.join(":"))), given))) unverified();
  }

  /** The value at the first place that has one. */
  find(places: Place[] | undefined): string {
    for (const place of places ?? []) {
      const [, where, name, condition] = /^(\w+):([^?]*)\??(.*)$/.exec(place)!;
      const text = this.at(where!, name!, condition!);
      if (text !== "") return text;
    }
    return "";
  }

  private at(where: string, name: string, condition: string): string {
    if (where === "header") {
      const value = this.request.headers.get(name) ?? "";
      return value.includes(", ") ? "" : value;
    }
    if (where === "form") return this.form.get(name) ?? "";
    if (where === "payload") return scalar(valueAt(this.payload, name));
    return condition && valueAt(this.json, condition) === undefined ? "" : scalar(valueAt(this.json, name));
  }

  /** The body as JSON; undefined if it is none. */
  private get json(): unknown {
    return (this.parsed ??= { json: parsed(() => utf8(this.bytes)) }).json;
  }

  /** The field `payload` of a form, as JSON. */
  private get payload(): unknown {
    const text = this.form.get("payload");
    return text === null ? undefined : parsed(() => text);
  }

  /** The body as a form; empty if it is none. */
  private get form(): URLSearchParams {
    const isForm = /^application\/x-www-form-urlencoded\s*(;|$)/i.test(this.request.headers.get("content-type") ?? "");
    return new URLSearchParams(isForm ? this.bytes.toString() : "");
  }
}

function parsed(text: () => string): unknown {
  try {
    return parseJSON(text(), exact);
  } catch {
    return undefined;
  }
}

const unverified = (): never => {
  throw new Refused("unverified", "The signature is missing or does not match.");
};
const pathAndQuery = (url: string) => /^[a-z]+:\/\/[^/?#]*([^#]*)/i.exec(url)?.[1] || "/";

/** Seconds, milliseconds or microseconds since 1970 by the number of digits, or RFC 3339; in milliseconds. */
function parseStamp(text: string): number {
  if (!/^[0-9]{1,16}$/.test(text)) return /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d/.test(text) ? Date.parse(text) : NaN;
  return text.length <= 11 ? Number(text) * 1000 : text.length <= 14 ? Number(text) : Number(text) / 1000;
}
