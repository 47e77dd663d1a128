// A shop that charges once, as a route of Next.js: app/hooks/route.js exports POST, which takes a Request and returns a Response.
//
//   npm install && DSN=shop.db SECRET=whsec_… PORT=3000 node route.mjs
import { createServer } from "node:http";

import { nodeHandler } from "grapnel/receive";

import { charge, probe } from "./store.mjs";

export const POST = charge; // this line is the route

// Without Next.js a small server calls it.
const hooks = nodeHandler(POST);
createServer((req, res) => {
  if (req.url.startsWith("/_probe")) return res.setHeader("content-type", "application/json").end(JSON.stringify(probe(req.url)));
  if (req.method === "POST" && req.url === "/hooks") return hooks(req, res);
  return res.writeHead(404).end();
}).listen(process.env.PORT ?? 3000, "127.0.0.1");
