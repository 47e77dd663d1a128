// Gates make the order of arrival harmless: each changes a row only if the event is newer than it, in one conditional statement.
import { SqliteTransaction } from "./sqlite.js";
import type { Queryable } from "./store.js";

/** The row that an event is about, and what the event sets in it. Keys need a unique constraint. */
export interface GatedRow {
  table: string;
  key: Record<string, unknown>;
  set?: Record<string, unknown>;
}

export type GateResult = "applied" | "stale" | "equal";

/** Applies an event whose version is higher than the row's. */
export async function versionGate(tx: Queryable, row: GatedRow, column: string, version: number | bigint): Promise<GateResult> {
  return upsert(tx, row, { [column]: whole(version) }, (t) => `excluded.${column} > ${t}.${column}`);
}

/**
 * Applies an event whose (time, id) is greater than the row's. The columns have nanoseconds since 1970 (bigint) and the event's id. A
 * time further in the future than `skew` seconds (60) is refused.
 */
export async function timestampGate(
  tx: Queryable,
  row: GatedRow,
  columns: { time: string; event: string },
  event: { time: string; id: string },
  { skew = 60, now = Date.now() }: { skew?: number; now?: number } = {},
): Promise<GateResult | "refused"> {
  const time = nanoseconds(event.time);
  if (time > BigInt(Math.round((now + skew * 1000) * 1e3)) * 1000n) return "refused";
  const bytes = tx instanceof SqliteTransaction ? "" : ` collate "C"`;
  const pair = (t: string) => `(${t}.${columns.time}, ${t}.${columns.event}${bytes})`;
  return upsert(tx, row, { [columns.time]: time, [columns.event]: event.id }, (t) => `${pair("excluded")} > ${pair(t)}`);
}

/** States, and which may follow which. */
export class StateMachine {
  private readonly known = new Set<string>();
  /** The states from which each can be reached. */
  private readonly before = new Map<string, Set<string>>();
  private readonly terminal: Set<string>;

  constructor(
    private readonly states: {
      edges: Record<string, readonly string[]>;
      terminal?: readonly string[];
      /** What a state does that is in no edge: `reject` it changes nothing, `accept` it applies unless the row's is terminal. */
      unknown: "accept" | "reject" | "dead_letter";
    },
  ) {
    const { edges, terminal = [], unknown } = states;
    if (!["accept", "reject", "dead_letter"].includes(unknown))
      throw new TypeError(`unknown: ${String(unknown)} is none of accept, reject, dead_letter`);
    this.terminal = new Set(terminal);
    for (const s of [...Object.entries(edges).flatMap(([from, to]) => [from, ...to]), ...terminal]) this.known.add(s);
    for (const s of terminal) if (edges[s]?.length) throw new TypeError(`edges: ${s} is terminal, so no state may follow it`);
    const reach = (s: string): Set<string> => {
      const all = new Set(edges[s] ?? []);
      for (const next of all) for (const further of edges[next] ?? []) all.add(further);
      return all;
    };
    for (const s of this.known) this.before.set(s, new Set());
    for (const from of this.known)
      for (const to of reach(from)) {
        if (to === from) throw new TypeError(`edges: ${from} follows itself in a circle; a version or a time has to say which is newer`);
        this.before.get(to)!.add(from);
      }
  }

  /** Applies a state that can follow the row's. `dead_letter`: neither can follow the other, or the state is unknown. */
  async apply(tx: Queryable, row: GatedRow, column: string, state: string): Promise<GateResult | "rejected" | "dead_letter"> {
    const { unknown } = this.states;
    const before = this.before.get(state);
    if (!before && unknown !== "accept") return unknown === "reject" ? "rejected" : "dead_letter";
    const list = (states: Iterable<string>) => [...states].map((s) => `'${s.replaceAll("'", "''")}'`).join(", ") || "''";
    const result = await upsert(tx, row, { [column]: state }, (t) => {
      if (!before) return `${t}.${column} <> excluded.${column} and ${t}.${column} not in (${list(this.terminal)})`;
      const odd = unknown === "accept" ? ` or ${t}.${column} not in (${list(this.known)})` : "";
      return `${t}.${column} in (${list(before)})${odd}`;
    });
    if (result !== "stale") return result;
    const [values, where] = conditions(row.key);
    const { rows } = await tx.query(`select ${column} as state from ${row.table} where ${where}`, values);
    const at = String(rows[0]?.state);
    return this.terminal.has(at) || this.before.get(at)?.has(state) ? "stale" : "dead_letter";
  }
}

/**
 * Applies an event that is a difference: version n + 1 alone, or 1 without a row. A later one is `parked` until `maxWait` seconds after
 * it came first; then it is `fetch`: the handler asks the sender for the state.
 */
export async function gapGate(
  tx: Queryable,
  row: GatedRow,
  column: string,
  version: number | bigint,
  { firstAt, maxWait, now = Date.now() }: { firstAt: number; maxWait: number; now?: number },
): Promise<GateResult | "parked" | "fetch"> {
  const next = whole(version);
  if (next === 1n) return upsert(tx, row, { [column]: next }, (t) => `excluded.${column} = ${t}.${column} + 1`);
  const set = { ...row.set, [column]: next };
  const [values, where] = conditions(row.key, Object.keys(set).length);
  const sets = Object.keys(set).map((c, i) => `${name(c)} = $${i + 1}`);
  const at = Object.keys(set).indexOf(column) + 1;
  const sql = `update ${name(row.table)} set ${sets.join(", ")} where ${where} and ${column} + 1 = $${at}`;
  if (((await tx.query(sql, [...Object.values(set), ...values])).rowCount ?? 0) > 0) return "applied";
  const [keys, same] = conditions(row.key, 1);
  const compare = `select ${column} = $1 as equal, ${column} > $1 as older from ${row.table} where ${same}`;
  const { rows } = await tx.query(compare, [next, ...keys]);
  if (rows[0] && isTrue(rows[0].equal)) return "equal";
  if (rows[0] && isTrue(rows[0].older)) return "stale";
  return now - firstAt > maxWait * 1000 ? "fetch" : "parked";
}

/** Inserts the row, or changes it where the gate is open or has seen nothing yet (null). `gate` columns are what the gate compares. */
async function upsert(tx: Queryable, row: GatedRow, gate: Record<string, unknown>, open: (table: string) => string): Promise<GateResult> {
  const all = { ...row.key, ...row.set, ...gate };
  const columns = Object.keys(all).map(name);
  const changed = Object.keys({ ...row.set, ...gate }).map((c) => `${c} = excluded.${c}`);
  const sql = `insert into ${name(row.table)} as t (${columns.join(", ")}) values (${columns.map((_, i) => `$${i + 1}`).join(", ")})
    on conflict(${Object.keys(row.key).join(", ")}) do update set ${changed.join(", ")}
    where t.${Object.keys(gate)[0]} is null or (${open("t")}) returning 1`;
  if ((await tx.query(sql, Object.values(all))).rows.length > 0) return "applied";
  // The conflict has locked the row, so it is the one that was compared.
  const [values, where] = conditions({ ...row.key, ...gate });
  return (await tx.query(`select 1 from ${row.table} where ${where}`, values)).rows.length > 0 ? "equal" : "stale";
}

function conditions(of: Record<string, unknown>, offset = 0): [unknown[], string] {
  const where = Object.keys(of).map((c, i) => `${name(c)} = $${offset + i + 1}`);
  return [Object.values(of), where.join(" and ")];
}

/** A name that may stand in a statement. */
function name(text: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$/.test(text))
    throw new TypeError(`${JSON.stringify(text)} is no name of a table or column`);
  return text;
}

function whole(version: number | bigint): bigint {
  if (typeof version === "number" && !Number.isSafeInteger(version))
    throw new TypeError(`version ${version}: it is no whole number below 2^53; read it with d.json({ numbers: "bigint" })`);
  return BigInt(version);
}

const isTrue = (value: unknown) => value === true || Number(value) === 1;

/** Nanoseconds since 1970 of a time by RFC 3339. */
export function nanoseconds(text: string): bigint {
  const [, seconds, fraction = "", zone] = /^(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  const at = seconds === undefined ? NaN : Date.parse(seconds.toUpperCase().replace(" ", "T") + zone!.toUpperCase());
  if (Number.isNaN(at)) throw new SyntaxError("the time is not one by RFC 3339");
  return BigInt(at) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}
