// An agent with the official TypeScript SDK: lists the tools of grapnel mcp, calls them, and says what it got, as JSON.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ProgressNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const job = JSON.parse(readFileSync(0, "utf8"));
const transport = job.command
  ? new StdioClientTransport({ command: job.command[0], args: job.command.slice(1), env: job.env })
  : new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers: { Authorization: `Bearer ${job.key}` } } });
const client = new Client({ name: "interop", version: "1.0.0" });
// onprogress of a call asks for notifications of progress, but the SDK drops those that it reads together with the call's answer.
let heard = [];
client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => void heard.push(params.message));
await client.connect(transport);
const { tools } = await client.listTools();
const calls = [];
for (const { tool, arguments: given } of job.calls) {
  heard = [];
  let result;
  try {
    result = await client.callTool({ name: tool, arguments: given }, undefined, { onprogress: () => {} });
  } catch (refused) { // a tool that is not listed
    result = { content: [{ text: String(refused) }], isError: true };
  }
  calls.push({ text: result.content[0].text, structured: result.structuredContent ?? null, failed: result.isError ?? false, heard });
}
process.stdout.write(JSON.stringify({
  server: client.getServerVersion().name, instructions: client.getInstructions(), protocol: transport.protocolVersion ?? null,
  tools: tools.map((tool) => tool.name).sort(), schemas: tools.every((tool) => tool.inputSchema && tool.outputSchema), calls,
}));
await client.close();
