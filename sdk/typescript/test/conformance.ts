// The cases that all kits have in common.
import { readFileSync } from "node:fs";

export interface Case {
  name: string;
  given: any;
  want: any;
}

export function cases(file: string): Case[] {
  const all = (JSON.parse(readFileSync(new URL(`../../conformance/${file}`, import.meta.url), "utf8")) as { cases: Case[] }).cases;
  if (all.length === 0) throw new Error(`${file} has no cases`);
  return all;
}

export const bytes = (given: any): Uint8Array =>
  given.body_base64 === undefined ? new TextEncoder().encode(given.body) : new Uint8Array(Buffer.from(given.body_base64, "base64"));
