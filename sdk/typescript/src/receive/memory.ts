// A store in this process's memory, for tests and for a single process that may forget.
import type { Bid, Claim, DeadLetter, InboxRequest, InboxStore, State, Taken } from "./store.js";

interface Row extends Claim {
  source: string;
  key: string;
  keepUntil: number;
}
interface Waiting extends Taken {
  state: "ready" | "busy" | "done" | "dead";
  leaseUntil: number;
  nextAt: number;
}

const idOf = (source: string, key: string) => `${source.length}:${source}${key}`;
const before = (a: Waiting, b: Waiting) => a.sequence < b.sequence || (a.sequence === b.sequence && a.id < b.id);

/** Its rows end with the process. Those that are no longer retained go when `clean` runs. */
export class MemoryStore implements InboxStore {
  private readonly rows = new Map<string, Row>();
  private readonly dead = new Map<string, DeadLetter>();
  private readonly inbox = new Map<string, Waiting>();

  constructor(readonly forgets: boolean) {}

  async setup(): Promise<void> {}

  async claim(b: Bid): Promise<Claim | undefined> {
    return this.claimed(b);
  }

  private claimed(b: Bid): Claim | undefined {
    const id = idOf(b.source, b.key);
    const row = this.rows.get(id);
    const takes = row
      ? (row.state === "busy" && row.leaseUntil < b.now) ||
        (b.replay ? row.state === "dead" : row.state === "free" || (row.state === "done" && row.keepUntil < b.now))
      : !b.replay;
    if (!takes) return row && { ...row };
    const { source, key, owner, leaseUntil, keepUntil, bodyHash } = b;
    const [generation, deliveries] = [(row?.generation ?? 0) + 1, (row?.deliveries ?? 0) + 1];
    const won: Row = {
      source,
      key,
      owner,
      leaseUntil,
      keepUntil,
      bodyHash,
      state: "busy",
      outcome: row?.outcome ?? "",
      generation,
      deliveries,
    };
    this.rows.set(id, won);
    return { ...won };
  }

  async look(source: string, key: string): Promise<Claim | undefined> {
    const row = this.rows.get(idOf(source, key));
    return row && { ...row };
  }

  private owned(b: Bid): Row | undefined {
    const row = this.rows.get(idOf(b.source, b.key));
    return row?.owner === b.owner && row.state === "busy" ? row : undefined;
  }

  async finish(b: Bid, state: State, outcome: string): Promise<boolean> {
    const row = this.owned(b);
    if (row) Object.assign(row, { state, outcome });
    return row !== undefined;
  }

  async renew(b: Bid, _now: number, leaseUntil: number): Promise<boolean> {
    const row = this.owned(b);
    if (row) row.leaseUntil = leaseUntil;
    return row !== undefined;
  }

  async clean(source: string, now: number, limit: number): Promise<number> {
    const old = [...this.rows].filter(([, r]) => r.source === source && (r.state === "done" || r.state === "free") && r.keepUntil < now);
    for (const [id] of old.slice(0, limit)) this.rows.delete(id);
    for (const [id, r] of this.inbox)
      if (r.source === source && r.state === "done" && !this.rows.has(idOf(source, r.key))) this.inbox.delete(id);
    return Math.min(old.length, limit);
  }

  async bury(b: Bid, letter: DeadLetter): Promise<boolean> {
    if (!(await this.finish(b, "dead", "dead_lettered"))) return false;
    this.write(letter);
    return true;
  }

  private write(letter: DeadLetter): void {
    const id = idOf(letter.source, letter.key);
    const old = this.dead.get(id);
    this.dead.set(id, old ? { ...letter, firstAt: old.firstAt, replayedAt: old.replayedAt, result: old.result } : letter);
  }

  async keep(letter: DeadLetter): Promise<void> {
    if (!this.dead.has(idOf(letter.source, letter.key))) this.write(letter);
  }

  async letter(source: string, key: string): Promise<DeadLetter | undefined> {
    return this.dead.get(idOf(source, key));
  }

  async letters(source: string, after = "", limit = 100): Promise<DeadLetter[]> {
    const all = [...this.dead.values()].filter((d) => d.source === source && d.key > after);
    return all.sort((a, b) => (a.key < b.key ? -1 : 1)).slice(0, limit);
  }

  async replayed(source: string, key: string, at: number, result: string): Promise<void> {
    const letter = this.dead.get(idOf(source, key));
    if (letter) Object.assign(letter, { replayedAt: at, result });
  }

  async accept(b: Bid, request: InboxRequest): Promise<Claim | undefined> {
    const row = this.claimed(b); // without a pause, so that no copy sees the claim before the request
    if (row?.owner !== b.owner) return row;
    this.inbox.set(request.id, { ...request, state: "ready", attempts: 0, owner: "", leaseUntil: 0, nextAt: request.receivedAt });
    await this.finish(b, "done", "accepted");
    return row;
  }

  async take(source: string, owner: string, now: number, leaseUntil: number, block: boolean): Promise<Taken | undefined> {
    const stops = (r: Waiting) => r.state === "ready" || r.state === "busy" || (block && r.state === "dead");
    const all = [...this.inbox.values()].filter((r) => r.source === source);
    const free = all
      .filter((r) => (r.state === "ready" && r.nextAt <= now) || (r.state === "busy" && r.leaseUntil < now))
      .filter((r) => r.orderingKey === "" || !all.some((e) => e.orderingKey === r.orderingKey && before(e, r) && stops(e)))
      .sort((a, b) => (before(a, b) ? -1 : 1))[0];
    if (!free) return undefined;
    Object.assign(free, { state: "busy", owner, leaseUntil, attempts: free.attempts + 1 });
    return { ...free };
  }

  private taken(r: Taken): Waiting | undefined {
    const row = this.inbox.get(r.id);
    return row?.owner === r.owner && row.state === "busy" ? row : undefined;
  }

  async extend(r: Taken, leaseUntil: number): Promise<boolean> {
    const row = this.taken(r);
    if (row) row.leaseUntil = leaseUntil;
    return row !== undefined;
  }

  async revive(source: string, key: string, now: number): Promise<boolean> {
    const row = [...this.inbox.values()].find((r) => r.source === source && r.key === key && r.state === "dead");
    const claim = this.rows.get(idOf(source, key));
    if (!row || claim?.state !== "dead") return false;
    Object.assign(row, { state: "ready", attempts: 0, nextAt: now });
    Object.assign(claim, { state: "done", outcome: "accepted" });
    return true;
  }

  async settle(r: Taken, to: Parameters<InboxStore["settle"]>[1]): Promise<boolean> {
    const row = this.taken(r);
    if (!row) return false;
    Object.assign(row, { state: to.state, nextAt: to.nextAt });
    if (to.state === "dead") {
      const claim = this.rows.get(idOf(r.source, r.key));
      if (claim?.state === "done") Object.assign(claim, { state: "dead", outcome: "dead_lettered" });
      const { source, key, headers, body } = r;
      const letter = { source, key, headers, body, error: to.error, deliveries: r.attempts, replayedAt: 0, result: "" };
      this.write({ ...letter, firstAt: r.receivedAt, lastAt: to.now });
    }
    return true;
  }
}

/** A store for tests, which say `{ test: true }`. Without it every receiver with this store logs that a restart forgets its keys. */
export const memoryStore = ({ test = false }: { test?: boolean } = {}) => new MemoryStore(!test);
