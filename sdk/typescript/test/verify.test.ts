import assert from "node:assert/strict";
import { test } from "node:test";
import { canonical, idempotencyKey, Refused, Verifier, type Source } from "grapnel/receive";
import { createHash } from "node:crypto";
import { schemes, type Scheme } from "../dist/receive/schemes.js";
import { RawHeaders, type HeaderValues } from "../dist/receive/source.js";
import { bytes, cases } from "./conformance.js";

/** A source as a case describes it. */
function source(given: any, more: Partial<Source> = {}): Source {
  const settings = Object.fromEntries(
    Object.entries(given.settings ?? {}).map(([name, value]) => [name.replace(/_(.)/g, (_, c: string) => c.toUpperCase()), value]),
  );
  return { name: "acme", scheme: given.scheme, secrets: given.secrets ?? [], publicUrl: given.public_url, ...settings, ...more };
}

/** The headers of a case as servers have them: a Headers, and the list of node:http with names in a sender's spelling. */
const forms: Record<string, (headers: [string, string][]) => HeaderValues> = {
  "Headers": (headers) => new Headers(headers),
  "node:http": (headers) => new RawHeaders(headers.flatMap(([name, value]) => [name.toUpperCase(), value])),
};

for (const file of ["signatures.json", "providers.json"]) {
  test(file, async (t) => {
    for (const { name, given, want } of cases(file)) for (const form in forms) {
      await t.test(`${name}: ${form}`, () => {
        const body = bytes(given);
        const request = {
          method: given.method ?? "POST",
          url: given.url ?? "https://hooks.example.com/",
          headers: forms[form]!([...new Headers(given.headers)]),
          body,
        };
        let got: { outcome: string; id?: string };
        try {
          const wantsId = want.id !== undefined;
          const verifier = new Verifier(source(given, wantsId ? { trustUnsignedId: true } : { keyFromBody: { form: "raw" } }));
          const verified = verifier.verify(request, given.now * 1000);
          const id = wantsId && ["adyen", "shopify"].includes(given.scheme) ? verified.id.slice(verified.id.indexOf(":") + 1) : verified.id;
          got = { outcome: "verified", ...(wantsId && { id }) };
        } catch (e) {
          if (!(e instanceof Refused)) throw e;
          got = { outcome: e.outcome };
        }
        assert.deepEqual(got, want);
      });
    }
  });
}

test("schemes.json", () => {
  const table: Record<string, Scheme> = schemes;
  for (const { given, want } of cases("schemes.json")) {
    const s = table[given.scheme]!;
    const got = { id: !!s.id, id_signed: !s.unsignedId, type_in_key: !!s.perType, span_ms: (s.span ?? 0) * 1000 };
    assert.deepEqual(got, want, given.scheme);
  }
  assert.equal(Object.keys(schemes).length, cases("schemes.json").length);
});

test("keys.json", async (t) => {
  for (const { name, given, want } of cases("keys.json")) {
    await t.test(name, () => {
      // The key is asked of a request that was verified already.
      const request = { method: "POST", url: "https://hooks.example.com/", headers: new Headers(given.headers), body: bytes(given) };
      const secrets = given.scheme === "adyen" ? ["00".repeat(32)] : ["YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh"];
      const make = (more: Partial<Source>) => new Verifier(source({ ...given, secrets }, { keyFromBody: given.key_from_body, ...more }));
      let got: unknown;
      try {
        got = { key: make({ trustUnsignedId: true }).keyOf(request), signed: signed() };
      } catch (e) {
        if (!(e instanceof Refused)) throw e;
        got = { outcome: e.outcome };
      }
      function signed() {
        try {
          make({});
          return true;
        } catch (e) {
          assert.match(String(e), /signs no event id/);
          return false;
        }
      }
      assert.deepEqual(got, want);
    });
  }
});

test("canonical.json", async (t) => {
  for (const { name, given, want } of cases("canonical.json")) {
    await t.test(name, () => {
      const make = () => canonical(bytes(given), given.ignore);
      if (want.error) return assert.throws(make);
      assert.deepEqual({ canonical: make(), sha256: createHash("sha256").update(make()).digest("hex") }, want);
    });
  }
});

test("idempotency.json", async (t) => {
  for (const { name, given, want } of cases("idempotency.json"))
    await t.test(name, () => assert.equal(idempotencyKey(given.source, given.event, given.step), want.key));
});

test("faults of a source are said by the constructor, without the secret", () => {
  const make = (more: Partial<Source>) => () =>
    new Verifier({ name: "acme", secrets: ["whsec_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh"], ...more });
  assert.throws(make({ secrets: [] }), /source\.secrets: give 1 to 10/);
  assert.throws(
    make({ secrets: ["whsec_not base64!"] }),
    (e: Error) => /secrets\[0\] is not base64/.test(e.message) && !e.message.includes("not base64!"),
  );
  assert.throws(make({ secrets: ["whsk_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh"] }), /private key/);
  assert.throws(make({ scheme: "fax" as never }), /use one of adyen, /);
  assert.throws(make({ header: "x-signature" }), /the scheme standard has no such setting/);
  assert.throws(make({ scheme: "github", secrets: ["12345678"] }), /Set keyFromBody, or trustUnsignedId/);
  assert.throws(make({ keyFromBody: { form: "canonical", ignore: ["attempt"] } }), /write it like/);
});
