import { hooks } from "./hooks.mjs";

Deno.serve({ port: Number(process.env.PORT), hostname: "127.0.0.1" }, hooks);
