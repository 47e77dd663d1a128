// A shop that charges once: Express.
//
//   npm install && DSN=shop.db SECRET=whsec_… PORT=3000 node express.mjs
import express from "express";
import { expressHooks } from "grapnel/receive";

import { charge, probe } from "./store.mjs";

const app = express();
expressHooks(app, "/hooks", charge); // before parsers: the signature covers the bytes of the body
app.use(express.json());
app.get("/_probe", (req, res) => res.json(probe(req.url)));
app.listen(process.env.PORT ?? 3000, "127.0.0.1");
