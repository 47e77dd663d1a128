import { Redis } from "ioredis";
import { redisStore } from "grapnel/receive";
import { redis } from "./servers.js";
import { storeSuite } from "./suite.js";

const none = async () => Promise.reject(new Error("no database"));
storeSuite(
  async () => {
    const server = await redis();
    const client = new Redis({ path: server.url });
    const close = async () => {
      await client.quit();
      await server.stop();
    };
    return { store: redisStore(client) as never, effects: none, close };
  },
  { transactions: false, inbox: false, forgets: true },
);
