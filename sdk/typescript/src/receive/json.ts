import { Buffer } from "node:buffer";

// JSON whose numbers stay as they were written. JSON.parse rounds 9007199254740993 to …992, so two events would become one.

/** A number as it was written. */
export class Lexeme {
  constructor(readonly text: string) {}
}

/** How values are made: a number from its text, an object from its members. */
export interface Makers {
  number: (text: string) => unknown;
  object: (members: [string, unknown][]) => unknown;
}

/** Levels of nesting that are read. */
const maxDepth = 64;
const escapes: Record<string, string> = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** Reads JSON by RFC 8259. Throws a SyntaxError that names the position and repeats nothing of the text. */
export function parseJSON(text: string, make: Makers): unknown {
  let at = 0;
  const fail = (): never => {
    throw new SyntaxError(at < text.length ? `invalid JSON at position ${at}` : "invalid JSON: it ends too early");
  };
  const space = () => {
    while (text[at] === " " || text[at] === "\n" || text[at] === "\r" || text[at] === "\t") at++;
  };
  const sticky = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    at += found?.length ?? 0;
    return found;
  };
  const number = /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
  const plain = /[^"\\\u0000-\u001f]+/y;
  const hex = /[0-9a-fA-F]{4}/y;
  const word = /true|false|null/y;

  function string(): string {
    at++;
    let out = "";
    for (;;) {
      out += sticky(plain) ?? "";
      if (text[at] === '"') break;
      if (text[at] !== "\\") fail();
      at++;
      if (text[at] === "u") {
        at++;
        out += String.fromCharCode(parseInt(sticky(hex) ?? fail(), 16));
      } else {
        out += escapes[text[at] ?? ""] ?? fail();
        at++;
      }
    }
    at++;
    return out;
  }

  function value(depth: number): unknown {
    space();
    if ((text[at] === "{" || text[at] === "[") && depth >= maxDepth) throw new SyntaxError(`invalid JSON: more than ${maxDepth} levels`);
    switch (text[at]) {
      case '"':
        return string();
      case "{": {
        const members: [string, unknown][] = [];
        items("}", () => {
          if (text[at] !== '"') fail();
          const name = string();
          space();
          if (text[at] !== ":") fail();
          at++;
          members.push([name, value(depth + 1)]);
        });
        return make.object(members);
      }
      case "[": {
        const list: unknown[] = [];
        items("]", () => list.push(value(depth + 1)));
        return list;
      }
    }
    const literal = sticky(word);
    if (literal !== undefined) return literal === "null" ? null : literal === "true";
    return make.number(sticky(number) ?? fail());
  }

  function items(end: string, item: () => void): void {
    at++;
    space();
    if (text[at] === end) {
      at++;
      return;
    }
    for (;;) {
      space();
      item();
      space();
      if (text[at] === end) break;
      if (text[at] !== ",") fail();
      at++;
    }
    at++;
  }

  const result = value(0);
  space();
  if (at < text.length) fail();
  return result;
}

/** Whole numbers that a double cannot hold become a BigInt, and others a number. */
export const bigints: Makers = {
  number: (text) => {
    const n = Number(text);
    return /^-?[0-9]+$/.test(text) && !Number.isSafeInteger(n) ? BigInt(text) : n;
  },
  object: Object.fromEntries,
};

/** An object whose members keep their order, also those that share a name. */
export class Members {
  constructor(readonly list: [string, unknown][]) {}
}

/** Keeps numbers as they were written, and members as they came. */
export const exact: Makers = { number: (text) => new Lexeme(text), object: (members) => new Members(members) };

/** A part of a path: a member's name, an element's index, or `true` for all of them. */
type Step = string | number | true;

/** Reads `$.a.b`, `$.items[*].at`, `$.list[0]`, `$["odd name"]` and `$.*`. */
export function pathOf(text: string): Step[] {
  const step = /\.([^.[]+)|\[(?:(\*)|(0|[1-9][0-9]*)|("(?:[^"\\]|\\.)*"))\]/y;
  const steps: Step[] = [];
  step.lastIndex = 1;
  while (text.startsWith("$") && step.lastIndex > 0 && step.lastIndex < text.length) {
    const found = step.exec(text);
    if (!found) break;
    const [, name, all, index, quoted] = found;
    steps.push(name === "*" || all ? true : (name ?? (index ? Number(index) : (JSON.parse(quoted!) as string))));
    if (step.lastIndex === text.length) return steps;
  }
  throw new TypeError(`path ${JSON.stringify(text)} cannot be read; write it like $.data.attempt, $.items[*].at or $["odd name"]`);
}

/**
 * The canonical form: members sorted by their names' UTF-8 bytes at every level, no space, numbers as they were written.
 * What the ignored paths lead to is left out.
 */
export function canonical(body: Uint8Array, ignore: readonly string[] = []): string {
  const write = (value: unknown, paths: Step[][]): string => {
    if (value instanceof Lexeme) return value.text;
    if (!Array.isArray(value) && !(value instanceof Members)) return JSON.stringify(value);
    // JSON.stringify escapes as little as possible, and keeps the escape of a surrogate without its partner.
    const parts: [Uint8Array, string][] = [];
    const add = (name: string | number, v: unknown) => {
      const on = paths.filter(([first]) => first === true || first === name);
      if (on.some((p) => p.length === 1)) return;
      const inner = write(v, on.map((p) => p.slice(1)));
      parts.push(typeof name === "number" ? [empty, inner] : [Buffer.from(codePoints(name)), `${JSON.stringify(name)}:${inner}`]);
    };
    if (Array.isArray(value)) value.forEach((v, i) => add(i, v));
    else for (const [name, v] of value.list) add(name, v);
    parts.sort(([a], [b]) => Buffer.compare(a, b));
    const inside = parts.map(([, part]) => part).join(",");
    return Array.isArray(value) ? `[${inside}]` : `{${inside}}`;
  };
  return write(parseJSON(utf8(body), exact), ignore.map(pathOf));
}

const empty = new Uint8Array();

/** Four bytes for each code point, which order as UTF-8's bytes do, and also surrogates without a partner. */
const codePoints = (text: string) => [...text].flatMap((c) => [24, 16, 8, 0].map((shift) => (c.codePointAt(0)! >> shift) & 255));

/** The value at a path such as `data.items.0.id`; of members with one name the first. */
export function valueAt(value: unknown, path: string): unknown {
  for (const name of path.split(".")) {
    if (Array.isArray(value)) value = value[Number(name)];
    else if (value instanceof Members) value = value.list.find(([n]) => n === name)?.[1];
    else return undefined;
  }
  return value;
}

/** A string, or a number as it was written; anything else names nothing. */
export const scalar = (value: unknown): string => (typeof value === "string" ? value : value instanceof Lexeme ? value.text : "");

/** The text of UTF-8 bytes; throws if they are none. */
export const utf8 = (bytes: Uint8Array): string => decoder.decode(bytes);
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
