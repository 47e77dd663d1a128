import { postgres } from "./servers.js";
import { storeSuite } from "./suite.js";
import { open } from "./worlds.js";

storeSuite(async () => {
  const server = await postgres();
  const world = await open("postgres", server.url);
  const close = async () => {
    await world.close();
    await server.stop();
  };
  return { ...world, close };
});
