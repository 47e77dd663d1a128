// Publishes an event and follows its delivery with types that are generated from /openapi.json.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined>; exit(code: number): never };

const client = createClient<paths>({
  baseUrl: process.env["GRAPNEL_SERVER"] ?? "",
  headers: { Authorization: `Bearer ${process.env["GRAPNEL_KEY"] ?? ""}` },
});

// What a generated client promises of a problem, whatever the status.
function fail(where: string, problem: components["schemas"]["Problem"]): never {
  throw new Error(`${where}: ${problem.status} ${problem.code}: ${problem.detail}`);
}

async function main(): Promise<void> {
  const endpoint = await client.POST("/v1/endpoints", {
    body: { url: process.env["RECEIVER"] ?? "", event_types: ["interop.*"], rate_limit: { per_second: 10 } },
  });
  if (endpoint.error) fail("create", endpoint.error);

  const changed = await client.PATCH("/v1/endpoints/{id}", {
    params: { path: { id: endpoint.data.id } },
    body: { description: "of the TypeScript client", rate_limit: null },
  });
  if (changed.error) fail("change", changed.error);
  if (changed.data.rate_limit !== null) throw new Error("null did not take the limit away");

  const event = await client.POST("/v1/events", {
    params: { header: { "Idempotency-Key": "typescript-1" } },
    body: { type: "interop.typescript", data: { n: 1 }, key: "k" },
  });
  if (event.error) fail("publish", event.error);

  // Each list is a request, so the loop goes at the pace of the server.
  for (let asked = 1; ; asked++) {
    const list = await client.GET("/v1/deliveries", {
      params: { query: { endpoint: endpoint.data.id, limit: 10, status: ["delivered"] } },
    });
    if (list.error) fail("list", list.error);
    const delivery = list.data.data[0];
    if (delivery !== undefined) {
      if (delivery.event_id !== event.data.id) throw new Error(`delivered ${delivery.event_id}`);
      break;
    }
    if (asked === 5000) throw new Error("the event was not delivered");
  }

  const refused = await client.POST("/v1/events", { body: { type: "not a type", data: 1 } });
  if (refused.error?.errors[0]?.pointer !== "/type") throw new Error("the problem does not name the field");
  console.log("compiles (strict), creates, changes, publishes, lists, reads problems");
}

main().catch((error: unknown) => {
  console.log(String(error));
  process.exit(1);
});
