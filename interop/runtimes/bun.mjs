import { hooks } from "./hooks.mjs";

Bun.serve({ port: process.env.PORT, hostname: "127.0.0.1", routes: { "/hooks": { POST: hooks } } });
