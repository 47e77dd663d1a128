### forged
forged() { [ "$(curl -s -o /dev/null -w '%{http_code}' -H "webhook-id: a" -H "webhook-timestamp: $(date +%s)" -H "webhook-signature: v1,AAAA" -d '{}' localhost:3000/hooks)" = 401 ]; }
forged

### test
grapnel endpoints test ep_…
forged

### next
node --input-type=module -e 'import { createServer } from "node:http"; import { POST } from "./app/hooks/route.js";
createServer(async (req, res) => { const body = []; for await (const part of req) body.push(part);
const r = await POST(new Request("http://localhost", { method: "POST", headers: req.headers, body: Buffer.concat(body) }));
res.writeHead(r.status).end(await r.text()); }).listen(3000)'
