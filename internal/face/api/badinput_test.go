package api

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/wire"
)

// bad is one kind of bad input. Targets may name things of the prepared world: EP (an endpoint),
// DLV (a delivery that waits), DONE (one that is over), EVT (an event), RPL (a replay that is
// running), OFF (an endpoint that is disabled), CHN (a channel), QUE (a queue called orders),
// LSE (a lease of it), SRC (a source), REQ (a request of it in quarantine), POL (a policy in use),
// FREE (one that is not), KEY (an API key), ISS (an issue), CURSOR (of /v1/events?limit=1).
type bad struct {
	name    string
	method  string
	target  string
	body    string
	key     string // empty: admin
	header  []string
	status  int
	code    grapnel.Code
	pointer string // of one of the faults; "-": there are none
}

func badInputs() []bad {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	invalid, malformed := grapnel.CodeInvalid, grapnel.CodeMalformed
	post := func(name, target, body string, status int, code grapnel.Code, pointer string) bad {
		return bad{name: name, method: "POST", target: target, body: body, status: status, code: code, pointer: pointer}
	}
	event := func(name, body string, status int, code grapnel.Code, pointer string) bad {
		return post("event: "+name, "/v1/events", body, status, code, pointer)
	}
	endpoint := func(name, member, pointer string) bad {
		return post("endpoint: "+name, "/v1/endpoints", `{"url":"https://a.example"`+member+`}`, 422, invalid, pointer)
	}
	url := func(name, url string) bad {
		return post("url: "+name, "/v1/endpoints", `{"url":"`+url+`"}`, 422, invalid, "/url")
	}
	target := func(name, fields, pointer string) bad {
		return post("target: "+name, "/v1/endpoints", `{"target":{`+fields+`}}`, 422, invalid, pointer)
	}
	patch := func(name, body, pointer string) bad {
		return bad{name: "patch: " + name, method: "PATCH", target: "/v1/endpoints/EP", body: body, status: 422, code: invalid, pointer: pointer}
	}
	get := func(name, target, pointer string) bad {
		return bad{name: "query: " + name, method: "GET", target: target, status: 422, code: invalid, pointer: pointer}
	}
	reason := func(verb, target, name, value string) bad {
		return post(verb+": reason "+name, target, `{"reason":`+value+`}`, 422, invalid, "/reason")
	}
	again := func(name, body, pointer string) bad {
		return post("replay: "+name, "/v1/endpoints/EP/replay", body, 422, invalid, pointer)
	}
	policy := func(name, body, pointer string) bad {
		return post("policy: "+name, "/v1/policies", `{"name":"mine",`+body+`}`, 422, invalid, pointer)
	}
	all := []bad{
		// JSON
		event("no body", "", 400, malformed, "-"),
		event("only space", "  \n", 400, malformed, "-"),
		event("cut off", `{"type":"a","data":`, 400, malformed, "-"),
		event("a comma too many", `{"type":"a","data":1,}`, 400, malformed, "-"),
		event("single quotes", `{'type':'a','data':1}`, 400, malformed, "-"),
		event("a comment", `{"type":"a"/**/,"data":1}`, 400, malformed, "-"),
		event("NaN", `{"type":"a","data":NaN}`, 400, malformed, "-"),
		event("a leading zero", `{"type":"a","data":01}`, 400, malformed, "-"),
		event("something after it", `{"type":"a","data":1} {}`, 400, malformed, "-"),
		event("a byte order mark", "\ufeff"+`{"type":"a","data":1}`, 400, malformed, "-"),
		event("a control character in a string", "{\"type\":\"a\",\"data\":\"\x01\"}", 400, malformed, "-"),
		event("not UTF-8", "{\"type\":\"a\",\"data\":\"\xc3\x28\"}", 400, malformed, "-"),
		event("UTF-16", "\xff\xfe{\x00}\x00", 400, malformed, "-"),
		event("data nested too deep", `{"type":"a","data":`+deep(65)+`}`, 422, invalid, "/data"),
		event("brackets without end", strings.Repeat("[", 200_000), 400, malformed, "-"),
		event("a list", `[]`, 422, invalid, ""),
		event("a string", `"x"`, 422, invalid, ""),
		// fields of events
		event("no type", `{"data":1}`, 422, invalid, "/type"),
		event("no data", `{"type":"a"}`, 422, invalid, "/data"),
		event("type null", `{"type":null,"data":1}`, 422, invalid, "/type"),
		event("type of another type", `{"type":["a"],"data":1}`, 422, invalid, "/type"),
		event("type with an empty segment", `{"type":"a..b","data":1}`, 422, invalid, "/type"),
		event("type with a star", `{"type":"a.*","data":1}`, 422, invalid, "/type"),
		event("type too long", `{"type":"`+strings.Repeat("a", 129)+`","data":1}`, 422, invalid, "/type"),
		event("field unknown", `{"type":"a","data":1,"typ~e/":"b"}`, 422, invalid, "/typ~0e~1"),
		event("field in another case", `{"Type":"a","type":"a","data":1}`, 422, invalid, "/Type"),
		event("field twice", `{"type":"a","data":1,"data":2}`, 422, invalid, "/data"),
		event("field twice, once escaped", `{"type":"a","data":1,"d\u0061ta":2}`, 422, invalid, "/data"),
		event("key empty", `{"type":"a","data":1,"key":""}`, 422, invalid, "/key"),
		event("key too long", `{"type":"a","data":1,"key":"`+strings.Repeat("é", 129)+`"}`, 422, invalid, "/key"),
		event("key with a control character", `{"type":"a","data":1,"key":"a\u0000"}`, 422, invalid, "/key"),
		event("key with half a surrogate pair", `{"type":"a","data":1,"key":"a\ud83d"}`, 422, invalid, "/key"),
		event("key a number", `{"type":"a","data":1,"key":1}`, 422, invalid, "/key"),
		event("key and aggregate", `{"type":"a","data":1,"key":"k","aggregate_type":"t","aggregate_id":"i"}`, 422, invalid, "/key"),
		event("aggregate without id", `{"type":"a","data":1,"aggregate_type":"t"}`, 422, invalid, "/aggregate_id"),
		event("aggregate without type", `{"type":"a","data":1,"aggregate_id":"t"}`, 422, invalid, "/aggregate_type"),
		event("aggregate type with a slash", `{"type":"a","data":1,"aggregate_type":"a/b","aggregate_id":"t"}`, 422, invalid, "/aggregate_type"),
		event("id with a dot", `{"type":"a","data":1,"id":"a.b"}`, 422, invalid, "/id"),
		event("id empty", `{"type":"a","data":1,"id":""}`, 422, invalid, "/id"),
		event("id too long", `{"type":"a","data":1,"id":"`+strings.Repeat("a", 65)+`"}`, 422, invalid, "/id"),
		event("tenant that is no name", `{"type":"a","data":1,"tenant":"a b"}`, 422, invalid, "/tenant"),
		event("occurred_at a number", `{"type":"a","data":1,"occurred_at":1700000000}`, 422, invalid, "/occurred_at"),
		event("deliver_at a number", `{"type":"a","data":1,"deliver_at":1700000000}`, 422, invalid, "/deliver_at"),
		event("deliver_at without zone", `{"type":"a","data":1,"deliver_at":"2026-01-02T03:04:05"}`, 422, invalid, "/deliver_at"),
		event("deliver_at too far ahead", `{"type":"a","data":1,"deliver_at":"2126-01-02T03:04:05Z"}`, 422, invalid, "/deliver_at"),
		event("occurred_at without zone", `{"type":"a","data":1,"occurred_at":"2026-01-02T03:04:05"}`, 422, invalid, "/occurred_at"),
		event("metadata a list", `{"type":"a","data":1,"metadata":["a"]}`, 422, invalid, "/metadata"),
		event("metadata of numbers", `{"type":"a","data":1,"metadata":{"a/b":1}}`, 422, invalid, "/metadata/a~1b"),
		event("metadata twice", `{"type":"a","data":1,"metadata":{"a":"1","a":"2"}}`, 422, invalid, "/metadata/a"),
		event("metadata too long", `{"type":"a","data":1,"metadata":{"a":"`+strings.Repeat("x", 1025)+`"}}`, 422, invalid, "/metadata/a"),
		event("metadata too much", `{"type":"a","data":1,"metadata":{`+many(33,
			func(s string) string { return `"` + s + `":"1"` })+`}}`, 422, invalid, "/metadata"),
		// sizes
		event("data too large", `{"type":"a","data":"`+strings.Repeat("x", DefaultMaxEvent)+`"}`, 413, grapnel.CodeTooLarge, "-"),
		event("body too large", `{"type":"a","data":"`+strings.Repeat("x", DefaultMaxEvent+int(ample.EnvelopeBody))+`"}`, 413,
			grapnel.CodeTooLarge, "-"),
		post("endpoint: body too large", "/v1/endpoints", `{"url":"`+strings.Repeat("x", int(ample.ManagementBody))+`"}`, 413,
			grapnel.CodeTooLarge, "-"),
		{name: "raw: too large", method: "POST", target: "/v1/events/raw?type=a", body: strings.Repeat("x", DefaultMaxEvent+1),
			header: []string{"Content-Type", "text/plain"}, status: 413, code: grapnel.CodeTooLarge, pointer: "-"},
		// batches
		post("batch: empty", "/v1/events/batch", `{"events":[]}`, 422, invalid, "/events"),
		post("batch: no events", "/v1/events/batch", `{}`, 422, invalid, "/events"),
		post("batch: a list itself", "/v1/events/batch", `[]`, 422, invalid, ""),
		post("batch: events an object", "/v1/events/batch", `{"events":{}}`, 422, invalid, "/events"),
		post("batch: a field unknown", "/v1/events/batch", `{"events":[{"type":"a","data":1}],"x":1}`, 422, invalid, "/x"),
		post("batch: nothing valid", "/v1/events/batch", `{"events":[{"type":"a"},{"data":1}]}`, 422, invalid, "/events/1/type"),
		post("batch: too many", "/v1/events/batch",
			`{"events":[`+many(1001, func(string) string { return `{"type":"a","data":1}` })+`]}`, 422, invalid, "/events"),
		post("batch: not JSON", "/v1/events/batch", `{"events":[{"type":"a","data":1}`, 400, malformed, "-"),
		{name: "lines: nothing valid", method: "POST", target: "/v1/events/batch", body: "{\n{}\n",
			header: []string{"Content-Type", openapi.TypeNDJSON}, status: 422, code: invalid, pointer: "/1/type"},
		{name: "lines: none", method: "POST", target: "/v1/events/batch", body: "\n\n",
			header: []string{"Content-Type", openapi.TypeNDJSON}, status: 422, code: invalid, pointer: "/events"},
		{name: "lines: too many", method: "POST", target: "/v1/events/batch", body: strings.Repeat("{\"type\":\"a\",\"data\":1}\n",
			1001), header: []string{"Content-Type", openapi.TypeNDJSON}, status: 422, code: invalid, pointer: ""},
		// raw
		{name: "raw: no type", method: "POST", target: "/v1/events/raw", body: "x", status: 422, code: invalid, pointer: "?type"},
		{name: "raw: bad type", method: "POST", target: "/v1/events/raw?type=a%20b", body: "1", status: 422, code: invalid, pointer: "?type"},
		{name: "raw: parameter unknown", method: "POST", target: "/v1/events/raw?type=a&Key=k", body: "1", status: 422,
			code: invalid, pointer: "?Key"},
		{name: "raw: parameter twice", method: "POST", target: "/v1/events/raw?type=a&type=b", body: "1", status: 422,
			code: invalid, pointer: "?type"},
		{name: "raw: key too long", method: "POST", target: "/v1/events/raw?type=a&key=" + strings.Repeat("a", 257), body: "1",
			status: 422, code: invalid, pointer: "?key"},
		{name: "raw: says JSON and is not", method: "POST", target: "/v1/events/raw?type=a", body: "x", status: 400,
			code: malformed, pointer: "-"},
		{name: "raw: no media type", method: "POST", target: "/v1/events/raw?type=a", body: "x",
			header: []string{"Content-Type", "text"}, status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		// content types and encodings
		{name: "type: a form", method: "POST", target: "/v1/events", body: `{"type":"a","data":1}`,
			header: []string{"Content-Type", "multipart/form-data; boundary=x"}, status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		{name: "type: NDJSON where one is wanted", method: "POST", target: "/v1/events", body: `{"type":"a","data":1}`,
			header: []string{"Content-Type", openapi.TypeNDJSON}, status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		{name: "type: another charset", method: "POST", target: "/v1/events", body: `{"type":"a","data":1}`,
			header: []string{"Content-Type", "application/json; charset=utf-16"}, status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		{name: "type: nonsense", method: "POST", target: "/v1/endpoints", body: `{}`, header: []string{"Content-Type", ";;"},
			status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		{name: "encoding: gzip", method: "POST", target: "/v1/events", body: `{"type":"a","data":1}`,
			header: []string{"Content-Encoding", "gzip"}, status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		// endpoints
		post("endpoint: no url", "/v1/endpoints", `{}`, 422, invalid, "/url"),
		post("endpoint: a list", "/v1/endpoints", `[]`, 422, invalid, ""),
		post("endpoint: not JSON", "/v1/endpoints", `{`, 400, malformed, "-"),
		post("endpoint: no body", "/v1/endpoints", ``, 400, malformed, "-"),
		endpoint("field unknown", `,"uri":"x"`, "/uri"),
		endpoint("field twice", `,"url":"https://b.example"`, "/url"),
		endpoint("id given", `,"id":"ep_x"`, "/id"),
		endpoint("description too long", `,"description":"`+strings.Repeat("x", 1001)+`"`, "/description"),
		endpoint("event types a string", `,"event_types":"a"`, "/event_types"),
		endpoint("event type with half a star", `,"event_types":["a","b*"]`, "/event_types/1"),
		endpoint("event type a number", `,"event_types":[1]`, "/event_types/0"),
		endpoint("event types too many", `,"event_types":[`+many(101, func(s string) string { return `"` + s + `"` })+`]`, "/event_types"),
		endpoint("filter that is no expression", `,"filter":"event.type =="`, "/filter"),
		endpoint("filter that is not a condition", `,"filter":"event.type"`, "/filter"),
		endpoint("filter of what is not there", `,"filter":"secret.key == 1"`, "/filter"),
		endpoint("filter too long", `,"filter":"`+strings.Repeat("x", 4097)+`"`, "/filter"),
		endpoint("policy unknown", `,"policy":"nobodys"`, "/policy"),
		endpoint("policy a number", `,"policy":1`, "/policy"),
		endpoint("policy with a field unknown", `,"policy":{"retries":3}`, "/policy/retries"),
		endpoint("policy with a timeout that is a number", `,"policy":{"timeout":10}`, "/policy/timeout"),
		endpoint("policy with a negative delay", `,"policy":{"schedule":{"delays":["0s","-5s"]}}`, "/policy/schedule/delays/1"),
		endpoint("ordering unknown", `,"ordering":"fifo"`, "/ordering"),
		endpoint("ordering empty", `,"ordering":""`, "/ordering"),
		endpoint("rate of nothing", `,"rate_limit":{"per_second":0}`, "/rate_limit/per_second"),
		endpoint("rate too small", `,"rate_limit":{"per_second":0.00009}`, "/rate_limit/per_second"),
		endpoint("rate without rate", `,"rate_limit":{"burst":5}`, "/rate_limit/per_second"),
		endpoint("rate a number", `,"rate_limit":5`, "/rate_limit"),
		endpoint("rate with a field unknown", `,"rate_limit":{"per_second":1,"per_minute":1}`, "/rate_limit/per_minute"),
		endpoint("rate infinite", `,"rate_limit":{"per_second":1e999}`, "/rate_limit/per_second"),
		endpoint("concurrency of none", `,"max_concurrency":0`, "/max_concurrency"),
		endpoint("concurrency too high", `,"max_concurrency":1025`, "/max_concurrency"),
		endpoint("concurrency with a fraction", `,"max_concurrency":1.5`, "/max_concurrency"),
		endpoint("headers a list", `,"headers":[]`, "/headers"),
		endpoint("header with a line break", `,"headers":{"X-A":"a\r\nX-B: b"}`, "/headers/X-A"),
		endpoint("header that is reserved", `,"headers":{"Webhook-Signature":"v1,x"}`, "/headers/Webhook-Signature"),
		endpoint("header that is the connection's", `,"headers":{"content-length":"3"}`, "/headers/content-length"),
		endpoint("header that is no name", `,"headers":{"a b/c":"x"}`, "/headers/a b~1c"),
		endpoint("header that signature_headers names", `,"signature_headers":"svix","headers":{"Svix-Id":"x"}`, "/headers/Svix-Id"),
		endpoint("signature_headers unknown", `,"signature_headers":"stripe"`, "/signature_headers"),
		endpoint("header a number", `,"headers":{"X-A":1}`, "/headers/X-A"),
		endpoint("header with an unknown name in braces", `,"headers":{"X-A":"{event.id}","X-B":"{event.nosuch}"}`, "/headers/X-B"),
		endpoint("header with a single brace", `,"headers":{"X-A":"{event.id}}"}`, "/headers/X-A"),
		endpoint("format unknown", `,"format":"xml"`, "/format"),
		endpoint("transform that is no expression", `,"transform":"{id: }"`, "/transform"),
		endpoint("transform that asks for the time", `,"transform":"{at: now}"`, "/transform"),
		endpoint("transform that asks for the environment", `,"transform":"$ENV.HOME"`, "/transform"),
		endpoint("transform too long", `,"transform":"`+strings.Repeat(".", 4097)+`"`, "/transform"),
		endpoint("transform a number", `,"transform":1`, "/transform"),
		endpoint("status unknown", `,"status":"on"`, "/status"),
		endpoint("secret too short", `,"secret":"whsec_c2hvcnQ="`, "/secret"),
		endpoint("secret of another kind", `,"secret":"hunter2"`, "/secret"),
		endpoint("tenant empty", `,"tenant":""`, "/tenant"),
		endpoint("secret empty", `,"secret":""`, "/secret"),
		endpoint("tenant that is no name", `,"tenant":"../x"`, "/tenant"),
		{name: "endpoint: another's tenant", method: "POST", target: "/v1/endpoints",
			body: `{"url":"https://a.example","tenant":"other"}`, key: acmeAdmin, status: 422, code: invalid, pointer: "/tenant"},
		{name: "event: another's tenant", method: "POST", target: "/v1/events", body: `{"type":"a","data":1,"tenant":"other"}`,
			key: acmeAdmin, status: 422, code: invalid, pointer: "/tenant"},
		{name: "raw: another's tenant", method: "POST", target: "/v1/events/raw?type=a&tenant=other", body: `1`, key: acmeAdmin,
			status: 422, code: invalid, pointer: "?tenant"},
		// targets
		endpoint("target and url", `,"target":{"kind":"nats","address":"nats://a.example","name":"x"}`, "/url"),
		endpoint("target a text", `,"target":"nats://a.example"`, "/target"),
		endpoint("target of no kind", `,"target":{"address":"nats://a.example","name":"x"}`, "/target/kind"),
		post("target and format batch", "/v1/endpoints", `{"format":"batch","target":{"kind":"nats","address":"nats://a.example","name":"x"}}`, 422,
			invalid, "/format"),
		target("unknown kind", `"kind":"pigeon"`, "/target/kind"),
		target("kind of another flavour", `"kind":"kafka","address":"kafka://a.example","name":"x"`, "/target/kind"),
		target("no address", `"kind":"nats","name":"x"`, "/target/address"),
		target("address with a password", `"kind":"nats","address":"nats://me:p@a.example","name":"x"`, "/target/address"),
		target("address of another kind", `"kind":"nats","address":"amqp://a.example","name":"x"`, "/target/address"),
		target("loopback", `"kind":"nats","address":"nats://127.0.0.1","name":"x"`, "/target/address"),
		target("a private address", `"kind":"nats","address":"nats://a.example,10.0.0.1","name":"x"`, "/target/address"),
		target("no name", `"kind":"nats","address":"nats://a.example"`, "/target/name"),
		target("name with an unknown name in braces", `"kind":"nats","address":"nats://a.example","name":"x.{nosuch}"`, "/target/name"),
		target("option unknown", `"kind":"nats","address":"nats://a.example","name":"x","options":{"routing_key":"x"}`, "/target/options/routing_key"),
		target("option with a single brace", `"kind":"rabbitmq","address":"amqp://a.example","name":"x","options":{"routing_key":"{"}`,
			"/target/options/routing_key"),
		target("password as answers show it", `"kind":"nats","address":"nats://a.example","name":"x","password":"[redacted]"`, "/target/password"),
		{name: "target: a method", method: "POST", target: "/v1/endpoints",
			body: `{"method":"PUT","target":{"kind":"nats","address":"nats://a.example","name":"x"}}`, status: 422, code: invalid, pointer: "/method"},
		{name: "target: a token", method: "POST", target: "/v1/endpoints",
			body:   `{"oauth2":{"token_url":"https://t.example","client_id":"a","client_secret":"b"},"target":{"kind":"nats","address":"nats://a.example","name":"x"}}`,
			status: 422, code: invalid, pointer: "/oauth2"},
		{name: "target: certificates without TLS", method: "POST", target: "/v1/endpoints",
			body: `{"tls":{"ca":"x"},"target":{"kind":"nats","address":"nats://a.example","name":"x"}}`, status: 422, code: invalid, pointer: "/tls"},
		// URLs
		url("empty", ""), url("relative", "/hook"), url("another scheme", "ftp://a.example"), url("a file", "file:///etc/passwd"),
		url("no host", "https://"),
		url("loopback", "http://127.0.0.1:9/x"), url("metadata service", "http://169.254.169.254/latest"), url("IPv6 loopback", "http://[::1]/"),
		url("an address in decimal", "http://2130706433/"), url("localhost", "http://localhost/"),
		url("user and password", "https://u:p@a.example/"),
		url("a fragment", "https://a.example/#x"), url("not a URL", "https://a.example:port/"), url("a private address", "https://10.0.0.1/"),
		url("too long", "https://a.example/"+strings.Repeat("x", 2048)),
		// patches
		patch("id", `{"id":"ep_other"}`, "/id"),
		patch("id null", `{"id":null}`, "/id"),
		patch("tenant", `{"tenant":"acme"}`, "/tenant"),
		patch("secret", `{"secret":"whsec_x"}`, "/secret"),
		patch("created_at", `{"created_at":"2026-01-01T00:00:00Z"}`, "/created_at"),
		patch("unknown", `{"statuss":"enabled"}`, "/statuss"),
		patch("url null", `{"url":null}`, "/url"),
		patch("a list", `[]`, ""),
		patch("a header", `{"headers":{"Host":"x"}}`, "/headers/Host"),
		patch("a header with an unknown name in braces", `{"headers":{"X-A":"{nosuch}"}}`, "/headers/X-A"),
		patch("a header twice", `{"headers":{"X":"x","X":"y"}}`, "/headers/X"),
		patch("the policy's unknown field", `{"policy":{"x":1}}`, "/policy/x"),
		{name: "patch: not JSON", method: "PATCH", target: "/v1/endpoints/EP", body: `{"status"`, status: 400, code: malformed, pointer: "-"},
		{name: "patch: JSON patch", method: "PATCH", target: "/v1/endpoints/EP", body: `[]`,
			header: []string{"Content-Type", "application/json-patch+json"}, status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		// durations, secrets, tests
		post("rotate: overlap a number", "/v1/endpoints/EP/rotate-secret", `{"overlap":24}`, 422, invalid, "/overlap"),
		post("rotate: overlap without unit", "/v1/endpoints/EP/rotate-secret", `{"overlap":"24"}`, 422, invalid, "/overlap"),
		post("rotate: overlap negative", "/v1/endpoints/EP/rotate-secret", `{"overlap":"-1h"}`, 422, invalid, "/overlap"),
		post("rotate: overlap too long", "/v1/endpoints/EP/rotate-secret", `{"overlap":"721h"}`, 422, invalid, "/overlap"),
		post("rotate: secret", "/v1/endpoints/EP/rotate-secret", `{"secret":"x"}`, 422, invalid, "/secret"),
		post("test: type", "/v1/endpoints/EP/test", `{"type":"a b"}`, 422, invalid, "/type"),
		post("test: delay", "/v1/endpoints/EP/test", `{"delay":"25h"}`, 422, invalid, "/delay"),
		post("test: unknown", "/v1/endpoints/EP/test", `{"payload":1}`, 422, invalid, "/payload"),
		post("test: data too large", "/v1/endpoints/EP/test", `{"data":"`+strings.Repeat("x", DefaultMaxEvent)+`"}`, 413,
			grapnel.CodeTooLarge, "-"),
		// deliveries
		post("skip: no reason", "/v1/deliveries/DLV/skip", `{}`, 422, invalid, "/reason"),
		post("skip: empty reason", "/v1/deliveries/DLV/skip", `{"reason":""}`, 422, invalid, "/reason"),
		post("skip: over", "/v1/deliveries/DONE/skip", `{"reason":"x"}`, 409, grapnel.CodeConflict, "-"),
		post("skip: no such id", "/v1/deliveries/dlv_00000000000000000000000000/skip", `{"reason":"x"}`, 404, grapnel.CodeNotFound, "-"),
		post("retry: a body that means something", "/v1/deliveries/DLV/retry", `{"at":"now"}`, 422, invalid, "/at"),
		post("retry: not an id", "/v1/deliveries/1/retry", ``, 404, grapnel.CodeNotFound, "-"),
		post("retry: of another endpoint", "/v1/endpoints/ep_other/deliveries/DLV/retry", ``, 404, grapnel.CodeNotFound, "-"),
		post("skip: reason too long", "/v1/deliveries/DLV/skip", `{"reason":"`+strings.Repeat("x", 501)+`"}`, 422, invalid, "/reason"),
		reason("retry", "/v1/deliveries/DLV/retry", "empty", `""`),
		reason("retry", "/v1/deliveries/DLV/retry", "a number", `1`),
		reason("retry", "/v1/endpoints/EP/deliveries/DLV/retry", "too long", `"`+strings.Repeat("x", 501)+`"`),
		// levers
		reason("rotate", "/v1/endpoints/EP/rotate-secret", "a list", `["x"]`),
		reason("rotate", "/v1/endpoints/EP/rotate-secret", "too long", `"`+strings.Repeat("é", 501)+`"`),
		reason("pause", "/v1/endpoints/EP/pause", "empty", `""`),
		reason("pause", "/v1/endpoints/EP/pause", "with NUL", `"a\u0000"`),
		reason("pause", "/v1/endpoints/EP/pause", "too long", `"`+strings.Repeat("x", 501)+`"`),
		reason("resume", "/v1/endpoints/EP/resume", "an object", `{"x":"y"}`),
		reason("resume", "/v1/endpoints/EP/resume", "given twice", `"a","reason":"b"`),
		reason("probe", "/v1/endpoints/EP/probe", "with half a surrogate pair", `"\ud83d"`),
		reason("probe", "/v1/webhook-endpoints/EP/probe", "true", `true`),
		post("pause: a field unknown", "/v1/endpoints/EP/pause", `{"until":"tomorrow"}`, 422, invalid, "/until"),
		post("pause: a list", "/v1/endpoints/EP/pause", `[]`, 422, invalid, ""),
		post("pause: not JSON", "/v1/endpoints/EP/pause", `{"reason"`, 400, malformed, "-"),
		post("pause: disabled", "/v1/endpoints/OFF/pause", ``, 409, grapnel.CodeConflict, "-"),
		post("resume: disabled", "/v1/endpoints/OFF/resume", `{"reason":"x"}`, 409, grapnel.CodeConflict, "-"),
		post("resume: no such endpoint", "/v1/endpoints/ep_none/resume", ``, 404, grapnel.CodeNotFound, "-"),
		post("resume: in the query", "/v1/endpoints/EP/resume?reason=x", ``, 422, invalid, "?reason"),
		post("probe: no such endpoint", "/v1/endpoints/ep_none/probe", ``, 404, grapnel.CodeNotFound, "-"),
		post("probe: a field unknown", "/v1/endpoints/EP/probe", `{"delivery":"DLV"}`, 422, invalid, "/delivery"),
		{name: "pause: a form", method: "POST", target: "/v1/endpoints/EP/pause", body: `reason=x`,
			header: []string{"Content-Type", "text/plain"}, status: 415, code: grapnel.CodeUnsupported, pointer: "-"},
		{name: "pause: put", method: "PUT", target: "/v1/endpoints/EP/pause", status: 405, code: codeMethod, pointer: "-"},
		{name: "patch: reason in the body", method: "PATCH", target: "/v1/endpoints/EP", body: `{"reason":"x"}`, status: 422,
			code: invalid, pointer: "/reason"},
		{name: "patch: reason empty", method: "PATCH", target: "/v1/endpoints/EP?reason=", body: `{"status":"paused"}`,
			status: 422, code: invalid, pointer: "?reason"},
		{name: "patch: reason twice", method: "PATCH", target: "/v1/endpoints/EP?reason=a&reason=b", body: `{"status":"paused"}`,
			status: 422, code: invalid, pointer: "?reason"},
		{name: "patch: reason too long", method: "PATCH", target: "/v1/endpoints/EP?reason=" + strings.Repeat("x", 501),
			body: `{"status":"paused"}`, status: 422, code: invalid, pointer: "?reason"},
		{name: "delete: reason with a line break", method: "DELETE", target: "/v1/endpoints/EP?reason=a%0Ab", status: 422,
			code: invalid, pointer: "?reason"},
		{name: "delete: reason too long", method: "DELETE", target: "/v1/endpoints/EP?reason=" + strings.Repeat("x", 501),
			status: 422, code: invalid, pointer: "?reason"},
		get("lanes: unknown", "/v1/endpoints/EP/lanes?key=k", "?key"),
		get("lanes: limit 0", "/v1/endpoints/EP/lanes?limit=0", "?limit"),
		get("lanes: cursor made up", "/v1/endpoints/EP/lanes?cursor=AAAAAAAAAAAxMjM", "?cursor"),
		get("lanes: cursor of another list", "/v1/endpoints/EP/lanes?cursor=CURSOR", "?cursor"),
		{name: "lanes: no such endpoint", method: "GET", target: "/v1/endpoints/ep_none/lanes", status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		{name: "lanes: post", method: "POST", target: "/v1/endpoints/EP/lanes", status: 405, code: codeMethod, pointer: "-"},
		// audit
		get("audit: unknown", "/v1/audit?actor=key_admin", "?actor"),
		get("audit: endpoint empty", "/v1/audit?endpoint=", "?endpoint"),
		get("audit: endpoint twice", "/v1/audit?endpoint=EP&endpoint=OFF", "?endpoint"),
		get("audit: delivery with a control character", "/v1/audit?delivery=%00", "?delivery"),
		get("audit: tenant not UTF-8", "/v1/audit?tenant=%ff", "?tenant"),
		get("audit: limit too high", "/v1/audit?limit=501", "?limit"),
		get("audit: cursor of another list", "/v1/audit?cursor=CURSOR", "?cursor"),
		get("audit export: after without its hash", "/v1/audit/export?after=3", "?prev"),
		get("audit export: hash alone", "/v1/audit/export?prev="+strings.Repeat("0", 64), "?prev"),
		get("audit export: after 0", "/v1/audit/export?after=0&prev="+strings.Repeat("0", 64), "?after"),
		get("audit export: hash too short", "/v1/audit/export?after=3&prev=00", "?prev"),
		get("audit export: hash in capitals", "/v1/audit/export?after=3&prev="+strings.Repeat("A", 64), "?prev"),
		get("audit export: filtered", "/v1/audit/export?endpoint=EP", "?endpoint"),
		{name: "audit: delete", method: "DELETE", target: "/v1/audit", status: 405, code: codeMethod, pointer: "-"},
		// queries and cursors
		get("unknown", "/v1/events?tpye=a", "?tpye"),
		get("limit 0", "/v1/events?limit=0", "?limit"),
		get("limit too high", "/v1/deliveries?limit=501", "?limit"),
		get("limit no number", "/v1/keys?limit=ten", "?limit"),
		get("limit twice", "/v1/endpoints?limit=1&limit=2", "?limit"),
		get("limit empty", "/v1/policies?limit=", "?limit"),
		get("cursor nonsense", "/v1/events?cursor=!!", "?cursor"),
		get("cursor made up", "/v1/events?cursor=AAAAAAAAAAAxMjM", "?cursor"),
		get("cursor of another filter", "/v1/events?type=a&cursor=CURSOR", "?cursor"),
		get("cursor of another list", "/v1/deliveries?cursor=CURSOR", "?cursor"),
		{name: "query: cursor of another tenant", method: "GET", target: "/v1/events?limit=1&cursor=CURSOR", key: acmeAdmin,
			status: 422, code: invalid, pointer: "?cursor"},
		get("from no time", "/v1/events?from=yesterday", "?from"),
		get("to before from", "/v1/deliveries?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "?to"),
		get("status unknown", "/v1/deliveries?status=failed,broken", "?status"),
		get("reason code unknown", "/v1/deliveries?reason_code=tired", "?reason_code"),
		get("error class unknown", "/v1/endpoints/EP/deliveries?error_class=5xx", "?error_class"),
		get("error class twice", "/v1/deliveries?error_class=dns&error_class=tls", "?error_class"),
		get("status code no number", "/v1/deliveries?status_code=5xx", "?status_code"),
		get("status code too high", "/v1/deliveries?status_code=600", "?status_code"),
		get("text too long", "/v1/deliveries?text="+strings.Repeat("x", 257), "?text"),
		get("text empty", "/v1/deliveries?text=", "?text"),
		get("text of an endpoint twice", "/v1/deliveries?text=a&text=b", "?text"),
		get("type no pattern", "/v1/deliveries?type=a*", "?type"),
		get("key with a control character", "/v1/deliveries?key=%00", "?key"),
		get("key not UTF-8", "/v1/deliveries?key=%ff", "?key"),
		{name: "query: cannot be parsed", method: "GET", target: "/v1/events?type=%zz", status: 400, code: malformed, pointer: "-"},
		{name: "query: where there is none", method: "POST", target: "/v1/events?dry_run=true", body: `{"type":"a","data":1}`,
			status: 422, code: invalid, pointer: "?dry_run"},
		{name: "query: on a delete", method: "DELETE", target: "/v1/endpoints/EP?force=1", status: 422, code: invalid, pointer: "?force"},
		// dead letters
		get("dead letters: status", "/v1/dead-letters?status=failed", "?status"),
		get("dead letters: reason code unknown", "/v1/dead-letters?reason_code=old", "?reason_code"),
		get("dead letters: cursor of another list", "/v1/dead-letters?cursor=CURSOR", "?cursor"),
		{name: "note: not over", method: "PATCH", target: "/v1/deliveries/DLV", body: `{"note":"x"}`, status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "note: too long", method: "PATCH", target: "/v1/deliveries/DONE",
			body: `{"note":"` + strings.Repeat("x", 2001) + `"}`, status: 422, code: invalid, pointer: "/note"},
		{name: "note: a number", method: "PATCH", target: "/v1/deliveries/DONE", body: `{"note":1}`, status: 422, code: invalid,
			pointer: "/note"},
		{name: "note: another field", method: "PATCH", target: "/v1/deliveries/DONE", body: `{"status":"delivered"}`, status: 422,
			code: invalid, pointer: "/status"},
		{name: "issue: state", method: "PATCH", target: "/v1/issues/ISS", body: `{"state":"closed"}`, status: 422, code: invalid, pointer: "/state"},
		{name: "issue: muted in the past", method: "PATCH", target: "/v1/issues/ISS",
			body: `{"state":"muted","muted_until":"2020-01-01T00:00:00Z"}`, status: 422, code: invalid, pointer: "/muted_until"},
		{name: "issue: muted for years", method: "PATCH", target: "/v1/issues/ISS",
			body: `{"state":"muted","muted_until":"2120-01-01T00:00:00Z"}`, status: 422, code: invalid, pointer: "/muted_until"},
		{name: "issue: until without muted", method: "PATCH", target: "/v1/issues/ISS",
			body: `{"state":"open","muted_until":"2120-01-01T00:00:00Z"}`, status: 422, code: invalid, pointer: "/muted_until"},
		{name: "issue: owner too long", method: "PATCH", target: "/v1/issues/ISS",
			body: `{"owner":"` + strings.Repeat("x", 101) + `"}`, status: 422,
			code: invalid, pointer: "/owner"},
		{name: "issue: another field", method: "PATCH", target: "/v1/issues/ISS", body: `{"count":1}`, status: 422, code: invalid, pointer: "/count"},
		post("issue: replay at no rate", "/v1/issues/ISS/replay", `{"rate":0}`, 422, invalid, "/rate"),
		get("issues: state", "/v1/issues?state=closed", "?state"),
		get("issues: cursor of another list", "/v1/issues?cursor=CURSOR", "?cursor"),
		{name: "note: guessed", method: "PATCH", target: "/v1/deliveries/GUESS", body: `{"note":"x"}`, status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		post("discard: no reason", "/v1/deliveries/DONE/discard", `{}`, 422, invalid, "/reason"),
		post("discard: reason empty", "/v1/deliveries/DONE/discard", `{"reason":""}`, 422, invalid, "/reason"),
		post("discard: no body", "/v1/deliveries/DONE/discard", ``, 400, malformed, "-"),
		post("discard: guessed", "/v1/deliveries/GUESS/discard", `{"reason":"x"}`, 404, grapnel.CodeNotFound, "-"),
		// exports
		get("export: format unknown", "/v1/deliveries/export?format=xlsx", "?format"),
		get("export: limit", "/v1/deliveries/export?limit=5", "?limit"),
		get("export: status unknown", "/v1/deliveries/export?status=lost&format=csv", "?status"),
		get("export: dead letters by status", "/v1/dead-letters/export?status=failed", "?status"),
		{name: "export: post", method: "POST", target: "/v1/deliveries/export", status: 405, code: codeMethod, pointer: "-"},
		// replays
		again("from no time", `{"from":"yesterday"}`, "/from"),
		again("to before from", `{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`, "/to"),
		again("to is from", `{"from":"2026-01-02T00:00:00Z","to":"2026-01-02T00:00:00Z"}`, "/to"),
		again("type no pattern", `{"event_types":["a","b*"]}`, "/event_types/1"),
		again("types a string", `{"event_types":"a"}`, "/event_types"),
		again("types under another name", `{"types":["a"]}`, "/types"),
		again("key empty", `{"keys":[""]}`, "/keys/0"),
		again("too many keys", `{"keys":[`+many(1001, func(s string) string { return `"` + s + `"` })+`]}`, "/keys"),
		again("status that is not over", `{"status":["failed","pending"]}`, "/status/1"),
		again("rate 0", `{"rate":0}`, "/rate"),
		again("rate too high", `{"rate":10001}`, "/rate"),
		again("rate a string", `{"rate":"20"}`, "/rate"),
		again("stop_after 0", `{"stop_after":0}`, "/stop_after"),
		again("stop_after half", `{"stop_after":1.5}`, "/stop_after"),
		again("canary a number", `{"canary":1}`, "/canary"),
		again("dry_run a string", `{"dry_run":"true"}`, "/dry_run"),
		again("error class unknown", `{"error_class":"old"}`, "/error_class"),
		again("status code of none", `{"status_code":99}`, "/status_code"),
		again("deliveries and a class", `{"deliveries":["DONE"],"error_class":"timeout"}`, "/deliveries"),
		again("reason empty", `{"reason":""}`, "/reason"),
		again("a delivery nobody has", `{"deliveries":["dlv_x"]}`, "/deliveries/0"),
		post("replay: deliveries and a time", "/v1/endpoints/EP/replay", `{"deliveries":["dlv_x"],"from":"2026-01-01T00:00:00Z"}`,
			422, invalid, "/deliveries"),
		post("replay: not JSON", "/v1/endpoints/EP/replay", `{"from"`, 400, malformed, "-"),
		post("replay: no such endpoint", "/v1/endpoints/ep_none/replay", ``, 404, grapnel.CodeNotFound, "-"),
		post("replay: dry_run in the query", "/v1/endpoints/EP/replay?dry_run=true", ``, 422, invalid, "?dry_run"),
		post("replay: pause what is not there", "/v1/replays/rpl_none/pause", ``, 404, grapnel.CodeNotFound, "-"),
		post("replay: resume: reason too long", "/v1/replays/RPL/resume", `{"reason":"`+strings.Repeat("x", 501)+`"}`, 422, invalid, "/reason"),
		post("replay: cancel: a field unknown", "/v1/replays/RPL/cancel", `{"force":true}`, 422, invalid, "/force"),
		get("replays: active false", "/v1/replays?active=false", "?active"),
		get("replays: status", "/v1/replays?status=running", "?status"),
		get("replays: cursor of another list", "/v1/replays?cursor=CURSOR", "?cursor"),
		get("replay items: limit 0", "/v1/replays/RPL/items?limit=0", "?limit"),
		get("replay items: cursor of another list", "/v1/replays/RPL/items?cursor=CURSOR", "?cursor"),
		{name: "replay items: no such replay", method: "GET", target: "/v1/replays/rpl_none/items", status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		{name: "replay: delete", method: "DELETE", target: "/v1/replays/RPL", status: 405, code: codeMethod, pointer: "-"},
		// the deletion of a tenant
		{name: "tenant: no reason", method: "DELETE", target: "/v1/tenants/globex", status: 422, code: invalid, pointer: "?reason"},
		{name: "tenant: the default one", method: "DELETE", target: "/v1/tenants/default?reason=x", status: 409, code: grapnel.CodeConflict,
			pointer: "-"},
		{name: "tenant: nothing of it", method: "DELETE", target: "/v1/tenants/nobody?reason=x", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "tenant: by a key of a tenant", method: "DELETE", target: "/v1/tenants/acme?reason=x", key: acmeAdmin, status: 403,
			code: codeForbidden, pointer: "-"},
		// erasures
		post("erasure: nothing selected", "/v1/erasures", `{"tenant":"acme","reason":"x"}`, 422, invalid, "/key"),
		post("erasure: two selections", "/v1/erasures", `{"tenant":"acme","key":"k","filter":"true","reason":"x"}`, 422, invalid, "/key"),
		post("erasure: no tenant", "/v1/erasures", `{"key":"k","reason":"x"}`, 422, invalid, "/tenant"),
		post("erasure: no reason", "/v1/erasures", `{"tenant":"acme","key":"k"}`, 422, invalid, "/reason"),
		post("erasure: a filter that does not compile", "/v1/erasures", `{"tenant":"acme","filter":"event.(","reason":"x"}`, 422, invalid, "/filter"),
		post("erasure: metadata too long", "/v1/erasures", `{"tenant":"acme","metadata":{"a":"`+strings.Repeat("x", 1025)+`"},"reason":"x"}`, 422, invalid,
			"/metadata/a"),
		{name: "erasure: by a key of a tenant", method: "POST", target: "/v1/erasures", body: `{"tenant":"acme","key":"k","reason":"x"}`, key: acmeAdmin,
			status: 403, code: codeForbidden, pointer: "-"},
		// statistics
		get("stats: bucket unknown", "/v1/endpoints/EP/stats?bucket=week", "?bucket"),
		get("stats: from no time", "/v1/stats?from=2026", "?from"),
		get("stats: to before from", "/v1/stats?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "?to"),
		get("stats: from in the future", "/v1/stats?from=2030-01-02T00:00:00Z", "?from"),
		get("stats: too many hours", "/v1/stats?bucket=hour&from=2025-11-01T00:00:00Z", "?from"),
		get("stats: too many days", "/v1/endpoints/EP/stats?from=1990-01-01T00:00:00Z", "?from"),
		get("stats: of one endpoint of a tenant", "/v1/endpoints/EP/stats?tenant=acme", "?tenant"),
		get("stats: limit", "/v1/stats?limit=5", "?limit"),
		get("stats: by unknown", "/v1/stats?by=moon", "?by"),
		get("stats: by with bucket", "/v1/stats?by=type&bucket=day", "?bucket"),
		get("stats: type without by", "/v1/stats?type=a", "?type"),
		get("stats: endpoint without by", "/v1/stats?endpoint=EP", "?endpoint"),
		get("stats: groups without by", "/v1/stats?groups=3", "?groups"),
		get("stats: groups 0", "/v1/stats?by=type&groups=0", "?groups"),
		get("stats: a pattern of types", "/v1/stats?by=hour&type=a.*", "?type"),
		get("stats: types of an endpoint", "/v1/stats?by=type&endpoint=EP", "?endpoint"),
		get("stats: endpoints of a type", "/v1/stats?by=endpoint&type=a", "?type"),
		get("stats: an endpoint and a type", "/v1/stats?by=hour&endpoint=EP&type=a", "?type"),
		get("stats: endpoints of a year", "/v1/stats?by=endpoint&from=2025-01-02T00:00:00Z", "?from"),
		get("stats: too many hours by hour", "/v1/stats?by=hour&from=2025-11-01T00:00:00Z", "?from"),
		{name: "stats: no such endpoint", method: "GET", target: "/v1/endpoints/ep_none/stats", status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		// policies
		post("policy: no name", "/v1/policies", `{}`, 422, invalid, "/name"),
		post("policy: name with a space", "/v1/policies", `{"name":"a b"}`, 422, invalid, "/name"),
		post("policy: name of a preset", "/v1/policies", `{"name":"paylera"}`, 409, grapnel.CodeConflict, "-"),
		post("policy: name taken", "/v1/policies", `{"name":"used"}`, 409, grapnel.CodeConflict, "-"),
		policy("field unknown", `"retries":3`, "/retries"),
		policy("field twice", `"timeout":"1s","timeout":"2s"`, "/timeout"),
		policy("timeout too long", `"timeout":"2h"`, "/timeout"),
		policy("no attempts", `"max_attempts":0`, "/max_attempts"),
		policy("a delay without unit", `"schedule":{"delays":["0s","5"]}`, "/schedule/delays/1"),
		policy("a decision unknown", `"classify":{"404":"ignore"}`, "/classify/404"),
		policy("jitter negative", `"jitter":-1`, "/jitter"),
		policy("many unknown fields", many(5000, func(s string) string { return `"x` + s + `":1` }), "/x0"),
		{name: "policy: patch a preset", method: "PATCH", target: "/v1/policies/paylera", body: `{"timeout":"1s"}`, status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "policy: delete a preset", method: "DELETE", target: "/v1/policies/standard", status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "policy: delete one in use", method: "DELETE", target: "/v1/policies/POL", status: 409, code: grapnel.CodeConflict, pointer: "-"},
		{name: "policy: rename one in use", method: "PATCH", target: "/v1/policies/POL", body: `{"name":"other"}`, status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "policy: rename to a preset", method: "PATCH", target: "/v1/policies/FREE", body: `{"name":"sent"}`, status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "policy: patch the tenant", method: "PATCH", target: "/v1/policies/FREE", body: `{"tenant":null}`, status: 422,
			code: invalid, pointer: "/tenant"},
		{name: "policy: patch the name away", method: "PATCH", target: "/v1/policies/FREE", body: `{"name":null}`, status: 422,
			code: invalid, pointer: "/name"},
		// keys
		post("key: no name", "/v1/keys", `{"scopes":["read"]}`, 422, invalid, "/name"),
		post("key: no scopes", "/v1/keys", `{"name":"a"}`, 422, invalid, "/scopes"),
		post("key: scopes empty", "/v1/keys", `{"name":"a","scopes":[]}`, 422, invalid, "/scopes"),
		post("key: scope unknown", "/v1/keys", `{"name":"a","scopes":["read","write"]}`, 422, invalid, "/scopes/1"),
		post("key: scope twice", "/v1/keys", `{"name":"a","scopes":["read","read"]}`, 422, invalid, "/scopes/1"),
		post("key: scopes a string", "/v1/keys", `{"name":"a","scopes":"read"}`, 422, invalid, "/scopes"),
		post("key: no end", "/v1/keys", `{"name":"a","scopes":["read"],"expires_at":"soon"}`, 422, invalid, "/expires_at"),
		post("key: an end in the past", "/v1/keys", `{"name":"a","scopes":["read"],"expires_at":"2001-01-01"}`, 422, invalid, "/expires_at"),
		post("key: no address", "/v1/keys", `{"name":"a","scopes":["read"],"from":["10.0.0.0/8","home"]}`, 422, invalid, "/from/1"),
		post("key: name with a line break", "/v1/keys", `{"name":"a\nb","scopes":["read"]}`, 422, invalid, "/name"),
		post("key: key given", "/v1/keys", `{"name":"a","scopes":["read"],"key":"grp_mine"}`, 422, invalid, "/key"),
		{name: "key: another's tenant", method: "POST", target: "/v1/keys",
			body: `{"name":"a","scopes":["read"],"tenant":"other"}`, key: acmeAdmin, status: 422, code: invalid, pointer: "/tenant"},
		{name: "key: itself", method: "DELETE", target: "/v1/keys/key_admin", status: 409, code: grapnel.CodeConflict, pointer: "-"},
		{name: "key: its own admin scope", method: "PATCH", target: "/v1/keys/key_admin", body: `{"scopes":["read"]}`, status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "key: patch the tenant", method: "PATCH", target: "/v1/keys/KEY", body: `{"tenant":"acme"}`, status: 422,
			code: invalid, pointer: "/tenant"},
		{name: "key: patch scopes away", method: "PATCH", target: "/v1/keys/KEY", body: `{"scopes":null}`, status: 422,
			code: invalid, pointer: "/scopes"},
		// idempotency keys
		{name: "idempotency key: too long", method: "POST", target: "/v1/events", body: `{"type":"a","data":1}`,
			header: []string{"Idempotency-Key", strings.Repeat("x", 256)}, status: 422, code: invalid, pointer: "Idempotency-Key"},
		{name: "idempotency key: empty", method: "POST", target: "/v1/events", body: `{"type":"a","data":1}`,
			header: []string{"Idempotency-Key", ""}, status: 422, code: invalid, pointer: "Idempotency-Key"},
		// paths and methods
		{name: "path: none", method: "GET", target: "/v2/events", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "path: a slash too many", method: "GET", target: "/v1/events/", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "method: put", method: "PUT", target: "/v1/endpoints/EP", body: `{}`, status: 405, code: codeMethod, pointer: "-"},
		{name: "method: delete a list", method: "DELETE", target: "/v1/events", status: 405, code: codeMethod, pointer: "-"},
		{name: "id: nonsense", method: "GET", target: "/v1/endpoints/%2e%2e%2fkeys", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "id: of a delivery that was guessed", method: "GET", target: "/v1/deliveries/GUESS", status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		{name: "id: of an event with a dot", method: "GET", target: "/v1/events/a.b", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
	}
	return append(all, eventTypeInputs()...)
}

// many joins n texts made of the numbers from 0 by commas.
func many(n int, of func(string) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(of(strconv.Itoa(i)))
	}
	return b.String()
}

// prepared is a world with one of each thing, and the names that targets use for them.
func prepared(t *testing.T, change ...func(*Options)) (*world, *strings.Replacer) {
	t.Helper()
	w := newWorld(t, change...)
	used := w.must(201, "POST", "/v1/policies", `{"name":"used"}`)["id"].(string)
	free := w.must(201, "POST", "/v1/policies", `{"name":"free"}`)["id"].(string)
	key := w.must(201, "POST", "/v1/keys", `{"name":"k","scopes":["read"]}`)["id"].(string)
	ep := w.endpoint(admin, `,"policy":"used"`)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	done := w.only()
	w.finish(done, grapnel.Failed, grapnel.ReasonExhausted, "failed: it is enough")
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	first := w.newest(t)
	waits := w.must(200, "GET", "/v1/deliveries?status=pending", "")["data"].([]any)[0].(map[string]any)["id"].(string)
	event := w.must(200, "GET", "/v1/events?limit=1", "")["data"].([]any)[0].(map[string]any)["id"].(string)
	again := w.must(202, "POST", "/v1/endpoints/"+ep+"/replay", "")["id"].(string)
	cursor := w.must(200, "GET", "/v1/events?limit=1", "")["next"].(string)
	off := w.endpoint(admin, `,"status":"disabled"`)
	que, lse := w.orders()
	src := w.must(201, "POST", "/v1/sources", `{"name":"shop","verify":{"scheme":"stripe","secret":"whsec_test"}}`)["id"].(string)
	aside := grapnel.Aside{ID: "req_1", Tenant: "default", Why: grapnel.AsideUnverified, Body: []byte("{}"),
		Intake: grapnel.Intake{Source: src, At: w.clock}}
	if err := w.engine.SetAside(t.Context(), aside); err != nil {
		t.Fatal(err)
	}
	inc := w.must(201, "POST", "/v1/incidents", `{"title":"Slow","text":"We look."}`)["id"].(string)
	w.attempt(first, 1, 503, w.clock.Add(3600e9))
	return w, strings.NewReplacer("EP", ep, "OFF", off, "DLV", waits, "DONE", storeIDs.Of(done), "POL", used, "FREE", free,
		"KEY", key, "CURSOR", cursor, "EVT", event, "RPL", again, "CHN", w.channel(admin), "CON", w.contact(admin), "QUE", que, "LSE", lse, "SRC", src, "REQ", aside.ID, "INC", inc,
		"ERS", w.must(202, "POST", "/v1/erasures", `{"tenant":"nobody","key":"k","reason":"x"}`)["id"].(string), "TYP", w.checkedType(admin), "ALR", w.alert("default"), "ISS", w.issue("default", ep, 422, 2, "no"),
		"GUESS", storeIDs.Delivery(w.clock.Add(1e9), done.Seq))
}

func TestBadInputChangesNothingAndSaysWhatIsWrong(t *testing.T) {
	w, names := prepared(t)
	before := w.dump()
	seen := map[string]bool{}
	for _, b := range slices.Concat(badInputs(), badQueues(), badChannels(), badContacts(), badSources(), badOutboxes(), badAlerts()) {
		t.Run(b.name, func(t *testing.T) {
			if seen[b.name] {
				t.Fatal("the name is there twice")
			}
			seen[b.name] = true
			key := b.key
			if key == "" {
				key = admin
			}
			r := w.ask(key, b.method, names.Replace(b.target), b.body, b.header...)
			if r.StatusCode != b.status {
				t.Fatalf("answered %d, want %d: %s", r.StatusCode, b.status, r.body)
			}
			checkProblem(t, r, b)
			after := w.dump()
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("something has changed: %s", d)
			}
			before = after
		})
	}
	if len(seen) < 40 {
		t.Errorf("only %d kinds of bad input", len(seen))
	}
	for line := range strings.Lines(w.logged.String()) {
		if !strings.Contains(line, "level=INFO") { // a replay that the test starts is logged
			t.Errorf("a caller's mistake was logged as the server's: %s", line)
		}
	}
}

// checkProblem says whether an answer is a problem of the one shape, with the code and the pointer
// wanted.
func checkProblem(t *testing.T, r reply, b bad) {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type is %q", ct)
	}
	p := r.object(t)
	if len(p) != 7 {
		t.Errorf("the problem has other fields: %s", r.body)
	}
	for name, want := range map[string]any{
		"type": problemType(b.code), "title": kindOf(b.code).title, "status": float64(b.status), "code": string(b.code),
		"request_id": r.Header.Get("X-Request-Id"),
	} {
		if p[name] != want {
			t.Errorf("%s is %v, want %v", name, p[name], want)
		}
	}
	if d, _ := p["detail"].(string); d == "" {
		t.Errorf("there is no detail: %s", r.body)
	}
	var faults []wire.Fault
	raw, _ := json.Marshal(p["errors"])
	if err := json.Unmarshal(raw, &faults); err != nil || faults == nil {
		t.Fatalf("errors cannot be read: %s", r.body)
	}
	found := b.pointer == "-" && len(faults) == 0
	for _, f := range faults {
		found = found || f.Pointer == b.pointer && f.Detail != ""
	}
	if !found {
		t.Errorf("no fault at %q: %s", b.pointer, r.body)
	}
	if b.status == 405 && r.Header.Get("Allow") == "" {
		t.Error("there is no Allow")
	}
}

// TestEveryFormRefuses: no form takes every text, which a pattern that is wrong or not anchored
// does. What a form leaves to the handler (Later) has rows above.
func TestEveryFormRefuses(t *testing.T) {
	for name, f := range forms {
		if f.Later {
			continue
		}
		for _, text := range []string{"\x00", "a\x00b", f.Example + "\x00", f.Example + "\n\x00"} {
			if f.Fits(text) {
				t.Errorf("the form %q takes %q", name, text)
			}
		}
		if f.Example != "" && !f.Fits(f.Example) {
			t.Errorf("the form %q refuses its example %q", name, f.Example)
		}
	}
}
