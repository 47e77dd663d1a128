// Handlers for servers whose requests are not a Web Request, and whose parsers would take the raw body away.
import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { bodyIsGone, type Answer } from "./outcomes.js";
import type { Hooks } from "./receiver.js";
import { RawHeaders } from "./source.js";

type NodeRequest = IncomingMessage & { body?: unknown; rawBody?: unknown; originalUrl?: string };

/** A handler for node:http, and for a route of Express, Connect or a controller of Nest. */
export function nodeHandler(hooks: Hooks): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  return async (req, res) => {
    const answer = await respond(hooks, req);
    if (!answer) return void res.destroy();
    const { status, headers, body } = answer;
    headers["content-length"] = String(Buffer.byteLength(body));
    const rest = !req.complete && !req.readableEnded; // of a body that is too large
    if (rest) {
      headers.connection = "close";
      res.once("finish", () => req.destroy());
    }
    res.writeHead(status, headers).end(body);
  };
}

/** undefined: the sender left before its body was whole. */
async function respond(hooks: Hooks, req: NodeRequest): Promise<Answer | undefined> {
  const body = await rawBody(req, hooks.maxBody);
  if (body === "left") return undefined;
  if (body === "parsed")
    return bodyIsGone(
      "A parser has read the body, and the signature covers its bytes. Register the receiver before app.use(express.json()), " +
        "for example with expressHooks(app, path, hooks), or give its route express.raw({ type: () => true }); in Nest set rawBody: true.",
    );
  const scheme = "encrypted" in req.socket ? "https" : "http";
  const url = `${scheme}://${req.headers.host ?? "localhost"}${req.originalUrl ?? req.url ?? "/"}`;
  return hooks.handle({ method: req.method ?? "POST", url, headers: new RawHeaders(req.rawHeaders), body });
}

/** The bytes of a body, up to the limit and one more chunk; `parsed` if a parser has read them, `left` if the sender closed the connection
 * before it had sent them all. It is never rejected: node:http awaits no handler, so a rejection would end the process. */
function rawBody(req: NodeRequest, limit: number): Uint8Array | "parsed" | "left" | Promise<Uint8Array | "left"> {
  if (req.rawBody instanceof Uint8Array) return req.rawBody; // Nest
  if (req.body instanceof Uint8Array) return req.body; // express.raw
  if (req.readableDidRead || req.readableEnded) return "parsed";
  if (req.destroyed) return "left";
  return new Promise((resolve) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const whole = () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    const left = () => resolve("left"); // of no effect after `whole`: each request ends with "close"
    const next = (chunk: Uint8Array) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size <= limit) return;
      req.off("data", next).pause();
      whole();
    };
    req.on("data", next).once("end", whole).once("error", left).once("close", left);
  });
}

/** An app or router of Express 4 or 5. */
export interface ExpressApp {
  post(path: string, handler: (req: any, res: any) => unknown): unknown;
}

interface Layer {
  name?: string;
  match?(path: string): boolean;
}

/** Receives webhooks at a path of an Express app or router. Throws if a parser of bodies would run before. */
export function expressHooks(app: ExpressApp, path: string, hooks: Hooks): void {
  const { _router, stack } = app as { _router?: { stack: Layer[] }; stack?: Layer[] };
  // The getter `router` of Express 4 throws; only that one has `lazyrouter`, and no layers before `_router`.
  const layers = _router?.stack ?? stack ?? ("lazyrouter" in app ? [] : ((app as { router?: { stack: Layer[] } }).router?.stack ?? []));
  const parser = layers.find((l) => /^(json|urlencoded|text)Parser$/.test(l.name ?? "") && (l.match?.(path) ?? true));
  if (parser)
    throw new Error(
      `expressHooks ${path}: ${parser.name} runs before it and takes the bytes that the signature covers. ` +
        `Call expressHooks before app.use of that parser`,
    );
  app.post(path, nodeHandler(hooks));
}

/** An instance of Fastify. */
export interface FastifyApp {
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    type: string,
    parser: (request: any, payload: any, done: (error: Error | null, body?: any) => void) => void,
  ): unknown;
  post(path: string, handler: (request: any, reply: any) => unknown): unknown;
}

/** A plugin of Fastify: `app.register(fastifyHooks, { path: "/hooks", hooks })`. Parsers of the rest of the app stay as they are. */
export async function fastifyHooks(app: FastifyApp, { path, hooks }: { path: string; hooks: Hooks }): Promise<void> {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  const handle = nodeHandler(hooks);
  app.post(path, (request: { raw: IncomingMessage }, reply: { hijack(): void; raw: ServerResponse }) => {
    reply.hijack();
    return handle(request.raw, reply.raw);
  });
}

/** An application of Nest, on Express or Fastify. */
export interface NestApp {
  getHttpAdapter(): { getType(): string; getInstance(): any };
}

/** Receives webhooks at a path of a Nest application. Call it between NestFactory.create and app.listen. */
export async function nestHooks(app: NestApp, path: string, hooks: Hooks): Promise<void> {
  const adapter = app.getHttpAdapter();
  if (adapter.getType() === "fastify") await adapter.getInstance().register(fastifyHooks, { path, hooks });
  else expressHooks(adapter.getInstance(), path, hooks);
}
