import { memoryStore } from "grapnel/receive";
import { storeSuite } from "./suite.js";

const none = async () => Promise.reject(new Error("no database"));
storeSuite(async () => ({ store: memoryStore() as never, effects: none, close: async () => {} }), { transactions: false });
