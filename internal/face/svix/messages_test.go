package svix_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// TestAMessageForLater: its deliveries begin at the time that the program has asked for.
func TestAMessageForLater(t *testing.T) {
	c := asAdmin(t)
	c.app("later")
	c.must(201, "POST", "/app/later/endpoint", `{"url":"`+all.receiver.URL+`/takes/later"}`)
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	put := c.must(202, "POST", "/app/later/msg", `{"eventType":"a","payload":{},"deliverAt":"`+later+`"}`)
	at := c.must(200, "GET", "/app/later/msg/"+put["id"].(string)+"/endpoint", "")["data"].([]any)
	if put["deliverAt"] != later || len(at) != 1 || !strings.HasPrefix(fmt.Sprint(at[0].(map[string]any)["nextAttempt"]), later[:len(later)-1]) {
		t.Errorf("%v at %v", put, at)
	}
}

func TestMessages(t *testing.T) {
	c := asAdmin(t)
	c.app("shop")
	hook := all.receiver.URL + "/takes/shop"
	ep := c.must(201, "POST", "/app/shop/endpoint", `{"url":"`+hook+`","eventTypes":["order.paid"]}`)["id"].(string)
	other := c.must(201, "POST", "/app/shop/endpoint", `{"url":"`+all.receiver.URL+`/takes/channel","channels":["eu"]}`)["id"].(string)
	secret := c.must(200, "GET", "/app/shop/endpoint/"+ep+"/secret", "")["key"].(string)
	const payload = `{"n":  9007199254740993, "a":"é<"}`
	made := c.must(202, "POST", "/app/shop/msg", `{"eventType":"order.paid","eventId":"order-7.paid","payload":`+payload+`,"channels":["eu","us"],"tags":["t1"]}`)
	id := made["id"].(string)
	if made["eventId"] != "order-7.paid" || made["eventType"] != "order.paid" || fmt.Sprint(made["channels"], made["tags"]) != "[eu us] [t1]" || made["timestamp"] == nil {
		t.Errorf("created %v", made)
	}
	eventually(t, "the message arrives", func() bool {
		return len(all.receiver.at("/takes/shop")) == 1 && len(all.receiver.at("/takes/channel")) == 1
	})
	got := all.receiver.at("/takes/shop")[0]
	if string(got.body) != payload {
		t.Errorf("sent %s", got.body)
	}
	for _, name := range []string{"Id", "Timestamp", "Signature"} {
		if got.Get("Svix-"+name) == "" || got.Get("Svix-"+name) != got.Get("Webhook-"+name) {
			t.Errorf("%s: %v", name, got.Header)
		}
	}
	verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier.Verify(got.Header, got.body); got.Get("Svix-Id") != id || err != nil {
		t.Errorf("id %s, %v", got.Get("Svix-Id"), err)
	}
	plain := c.must(202, "POST", "/app/shop/msg?with_content=false", `{"eventType":"order.sent","payload":{"n":1}}`)
	if fmt.Sprint(plain["payload"]) != "map[]" {
		t.Errorf("without content: %v", plain)
	}
	raw := c.must(202, "POST", "/app/shop/msg", `{"eventType":"order.sent","payload":{},"transformationsParams":{"rawPayload":"{ \"raw\" : 1 }"}}`)["id"].(string)
	for _, name := range []string{id, "order-7.paid"} {
		if one := c.must(200, "GET", "/app/shop/msg/"+name, ""); one["id"] != id || one["eventId"] != "order-7.paid" {
			t.Errorf("%s: %v", name, one)
		}
	}
	for query, want := range map[string][]string{"": {raw, plain["id"].(string), id}, "?channel=eu": {id}, "?channel=de": nil, "?tag=t1": {id},
		"?event_types=order.sent": {raw, plain["id"].(string)}, "?event_types=order.sent,order.paid&limit=2": {raw, plain["id"].(string)},
		"?event_types%5B%5D=order.paid": {id}, "?before=2020-01-01T00:00:00Z": nil, "?after=2020-01-01T00:00:00%2B01:00&limit=1": {raw}} {
		if got := ids(c.must(200, "GET", "/app/shop/msg"+query, "")); !slices.Equal(got, want) {
			t.Errorf("%q: listed %v, want %v", query, got, want)
		}
	}
	first := c.must(200, "GET", "/app/shop/msg?limit=2", "")
	if rest := c.must(200, "GET", "/app/shop/msg?limit=2&iterator="+first["iterator"].(string), ""); !slices.Equal(ids(rest), []string{id}) || rest["done"] != true || rest["iterator"] != nil {
		t.Errorf("the second page: %v", rest)
	}
	destinations := c.must(200, "GET", "/app/shop/msg/"+id+"/endpoint", "")
	if want := []string{ep, other}; !slices.Equal(ids(destinations), want) || data(destinations)[0].(object)["statusText"] == nil {
		t.Errorf("destinations: %v, want %v", destinations, want)
	}
}

func TestAttemptsAndRecovery(t *testing.T) {
	c := asAdmin(t)
	c.app("broken")
	path := "/refuses/broken"
	ep := c.must(201, "POST", "/app/broken/endpoint", `{"url":"`+all.receiver.URL+path+`"}`)["id"].(string)
	// The default policy gives up at once at 404, so each message fails with one attempt.
	if status, _, text := c.ask("PATCH", "/v1/endpoints/"+ep, `{"policy":{"preset":"standard","classify":{"404":"fail"},"breaker":false}}`,
		"Content-Type", "application/json"); status != 200 {
		t.Fatalf("%s", text)
	}
	begun := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	var made []string
	for i := range 3 {
		made = append(made, c.must(202, "POST", "/app/broken/msg", fmt.Sprintf(`{"eventType":"a.b","payload":{"n":%d}}`, i))["id"].(string))
	}
	failed := func() int {
		n := 0
		for _, m := range data(c.must(200, "GET", "/app/broken/endpoint/"+ep+"/msg?status=2", "")) {
			if m.(object)["statusText"] == "fail" {
				n++
			}
		}
		return n
	}
	eventually(t, "all fail", func() bool { return failed() == 3 })
	var listed []string
	iterator := ""
	for done := false; !done; {
		part := c.must(200, "GET", "/app/broken/attempt/endpoint/"+ep+"?limit=1&with_msg=true&iterator="+iterator, "")
		for _, one := range data(part) {
			at := one.(object)
			listed = append(listed, at["msgId"].(string))
			if at["responseStatusCode"] != 404.0 || at["response"] != "no such thing" || at["status"] != 2.0 || at["triggerType"] != 0.0 ||
				at["endpointId"] != ep || at["url"] != all.receiver.URL+path || at["msg"].(object)["id"] != at["msgId"] ||
				!strings.HasPrefix(at["id"].(string), "atmpt_") {
				t.Errorf("attempt %v", at)
			}
		}
		done = part["done"].(bool)
		iterator, _ = part["iterator"].(string)
	}
	slices.Reverse(listed)
	if !slices.Equal(listed, made) {
		t.Errorf("attempts of %v, want %v", listed, made)
	}
	for query, want := range map[string]int{"?status=2": 3, "?status=0": 0, "?status_code_class=400": 3, "?status_code_class=500": 0, "?limit=2": 2} {
		if n := len(data(c.must(200, "GET", "/app/broken/attempt/endpoint/"+ep+query, ""))); n != want {
			t.Errorf("%s: %d attempts, want %d", query, n, want)
		}
	}
	one := data(c.must(200, "GET", "/app/broken/attempt/msg/"+made[0], ""))[0].(object)["id"].(string)
	if got := c.must(200, "GET", "/app/broken/msg/"+made[0]+"/attempt/"+one, ""); got["id"] != one {
		t.Errorf("one attempt: %v", got)
	}
	c.must(404, "GET", "/app/broken/msg/"+made[0]+"/attempt/atmpt_none", "")
	if got := c.must(200, "GET", "/app/broken/endpoint/"+ep+"/stats", ""); got["fail"] != 3.0 || got["success"] != 0.0 {
		t.Errorf("stats: %v", got)
	}
	all.receiver.repair(true)
	defer all.receiver.repair(false)
	c.must(202, "POST", "/app/broken/msg/"+made[0]+"/endpoint/"+ep+"/resend", "", "Idempotency-Key", "auto_resend")
	c.must(202, "POST", "/app/broken/msg/"+made[0]+"/endpoint/"+ep+"/resend", "", "Idempotency-Key", "auto_resend")
	eventually(t, "one is delivered", func() bool { return failed() == 2 })
	task := c.must(202, "POST", "/app/broken/endpoint/"+ep+"/recover", `{"since":"`+begun+`"}`)
	if !strings.HasPrefix(task["id"].(string), "qtask_") || task["task"] != "endpoint.recover" || task["status"] != "running" {
		t.Errorf("task %v", task)
	}
	eventually(t, "the recovery ends", func() bool {
		return c.must(200, "GET", "/background-task/"+task["id"].(string), "")["status"] == "finished" && failed() == 0
	})
	if n := len(all.receiver.at(path)); n != 6 {
		t.Errorf("%d requests, want 3 failures, 1 resent and 2 recovered", n)
	}
	if got := ids(c.must(200, "GET", "/background-task?status=finished", "")); !slices.Contains(got, task["id"].(string)) {
		t.Errorf("tasks: %v", got)
	}
	example := c.must(200, "POST", "/app/broken/endpoint/"+ep+"/send-example", `{"eventType":"a.b"}`)
	eventually(t, "the example arrives", func() bool { return len(all.receiver.at(path)) == 7 })
	if got := all.receiver.at(path)[6]; got.Get("Svix-Id") != example["id"] || !bytes.Contains(got.body, []byte("example of a.b")) {
		t.Errorf("example %v, sent %s", example, got.body)
	}
}
