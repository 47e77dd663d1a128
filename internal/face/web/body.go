package web

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// colouredBytes bounds the bodies that are shown in colours; a longer one would make the page
// large.
const colouredBytes = 4 << 10

// readable is a body for people: JSON is indented, with its numbers and the order of its keys as
// they came; any other body stays as it is. A long one is cut, and says so.
func (v *visit) readable(body []byte) []span {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") == nil {
		body = b.Bytes()
		if len(body) <= colouredBytes {
			return coloured(string(body))
		}
	}
	most := v.web.Bounds.Body
	if len(body) <= most {
		return []span{{"", string(body)}}
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(body[cut]) {
		cut--
	}
	return []span{{"", string(body[:cut])}, {"k", "\n… " + say.Many(len(body)-cut, "byte more", "bytes more")}}
}

// coloured takes valid JSON apart: names are soft, texts are coloured, the rest is plain.
func coloured(text string) (all []span) {
	plain := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		end := i + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(text))
		class := "s"
		if strings.HasPrefix(text[end:], ":") {
			class = "k"
		}
		if i > plain {
			all = append(all, span{"", text[plain:i]})
		}
		all = append(all, span{class, text[i:end]})
		i, plain = end-1, end
	}
	if plain < len(text) {
		all = append(all, span{"", text[plain:]})
	}
	return all
}

// jsonText is a text as JSON.
func jsonText(text string) string {
	out, _ := json.Marshal(text) // a string always can
	return string(out)
}

// snippets are programs to copy, which consume a queue.
func (v *visit) snippets(q *client.Queue) []ownLine {
	at := v.place.URL("/v1/queues/" + url.PathEscape(q.Name))
	base := v.place.URL("")
	return []ownLine{
		{"Command line: the handler gets each message on stdin, and its exit code acknowledges it", "grapnel queues consume " + shellQuote(q.Name) + " -- ./handler.sh"},
		{"curl: lease one, then acknowledge it", `curl -i -H "Authorization: Bearer $GRAPNEL_KEY" ` + shellQuote(at+"/next?wait=20s") + "\n" +
			`curl -X POST -H "Authorization: Bearer $GRAPNEL_KEY" ` + shellQuote(base+"/v1/leases/LEASE/ack")},
		{"curl: a stream of server-sent events", `curl -N -H "Authorization: Bearer $GRAPNEL_KEY" ` + shellQuote(at+"/stream")},
		{"Go", "c, err := client.New(client.Options{Server: " + jsonText(base) + ", Key: os.Getenv(\"GRAPNEL_KEY\")})\n" +
			"for {\n\tmessages, err := c.Next(ctx, " + jsonText(q.Name) + ", client.Take{Max: 10, Wait: 20 * time.Second})\n" +
			"\tfor _, m := range messages {\n\t\thandle(m.Body)\n\t\terr = c.Ack(ctx, m.Lease)\n\t}\n}"},
		{"TypeScript", "const auth = { Authorization: `Bearer ${process.env.GRAPNEL_KEY}` };\nfor (;;) {\n" +
			"  const answer = await fetch(" + jsonText(at+"/next?wait=20s&max=10") + ", { headers: auth });\n" +
			"  if (answer.status === 204) continue;\n  for (const m of (await answer.json()).data) {\n    await handle(m.body);\n" +
			"    await fetch(`" + base + "/v1/leases/${m.meta.lease}/ack`, { method: \"POST\", headers: auth });\n  }\n}"},
		{"Python", "import os, requests\nauth = {\"Authorization\": \"Bearer \" + os.environ[\"GRAPNEL_KEY\"]}\nwhile True:\n" +
			"    answer = requests.get(" + jsonText(at+"/next?wait=20s&max=10") + ", headers=auth, timeout=60)\n" +
			"    if answer.status_code == 204:\n        continue\n    for m in answer.json()[\"data\"]:\n        handle(m[\"body\"])\n" +
			"        requests.post(" + jsonText(base+"/v1/leases/") + " + m[\"meta\"][\"lease\"] + \"/ack\", headers=auth, timeout=60)"},
	}
}
