package match

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

func TestExpressions(t *testing.T) {
	r := &Request{
		Data:    []byte(`{"id":9007199254740993,"huge":9223372036854775809,"kind":"paid","rate":0.5,"flag":true,"list":[{"sku":"a"}]}`),
		Headers: http.Header{"X-Kind": {"order"}, "X-Many": {"a", "b"}}, Type: "invoice", Key: "k1",
	}
	for _, c := range []struct{ expression, want, reason string }{
		{`event.data.kind`, "paid", ""},
		{`event.type + "." + event.data.kind`, "invoice.paid", ""},
		{`event.headers["x-kind"]`, "order", ""},
		{`event.headers["x-many"]`, "a, b", ""},
		{`event.headers["X-Kind"]`, "", "no such key"},
		{`event.data.id`, "9007199254740993", ""},
		{`event.data.huge`, "9223372036854775809", ""},
		{`string(event.data.huge)`, "9223372036854775809", ""},
		{`string(event.data.id) + event.key`, "9007199254740993k1", ""},
		{`size(event.data.list)`, "1", ""},
		{`uint(7)`, "7", ""},
		{`event.data.list[0].sku`, "a", ""},
		{`has(event.data.missing) ? event.data.missing : "none"`, "none", ""},
		{`event.data.missing`, "", "no such key: missing"},
		{`event.data.rate`, "", "a double, not a text"},
		{`event.data.flag`, "", "a bool, not a text"},
		{`event.data.list`, "", "a list, not a text"},
		{`event.data`, "", "a map, not a text"},
		{`has(event.key) ? "yes" : "no"`, "yes", ""},
	} {
		e, err := CompileExpression(c.expression)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		got, err := e.Text(r)
		if got != c.want || (err != nil) != (c.reason != "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s is %q, %v; want %q, %q", c.expression, got, err, c.want, c.reason)
		}
	}
}

func TestExpressionsOverRequestsThatAreNotJSON(t *testing.T) {
	for expression, want := range map[string]string{
		`has(event.data) ? "json" : "bytes"`: "bytes", `has(event.key) ? "key" : "none"`: "none", `has(event.headers) ? "h" : "none"`: "none",
		`has(event.type) ? "t" : "none"`: "none", `event.type`: "",
	} {
		e, err := CompileExpression(expression)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Text(&Request{Data: []byte("<a/>")}); err != nil || got != want {
			t.Errorf("%s is %q, %v", expression, got, err)
		}
	}
	e, err := CompileExpression(`event.data.x`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Text(&Request{Data: []byte("<a/>")}); err == nil {
		t.Error("data that are no JSON were read")
	}
}

// TestReasonsAreShort: the reason of a failure quotes the data, which may be long.
func TestReasonsAreShort(t *testing.T) {
	data := []byte(`{"s":"` + strings.Repeat("é", 100_000) + `"}`)
	f, err := Compile(`{"paid": true}[event.data.s]`)
	if err != nil {
		t.Fatal(err)
	}
	e, err := CompileExpression(`{"paid": "invoice.paid"}[event.data.s]`)
	if err != nil {
		t.Fatal(err)
	}
	_, ofFilter := f.Match(&grapnel.Event{Data: data})
	_, ofExpression := e.Text(&Request{Data: data})
	for _, err := range []error{ofFilter, ofExpression} {
		if err == nil || !strings.Contains(err.Error(), "no such key: éé") || !strings.HasSuffix(err.Error(), "é…") || len(err.Error()) > 300 {
			t.Errorf("%.400v", err)
		}
	}
}

// TestRequestsAreReadOnce: however often expressions name the data, they are decoded once.
func TestRequestsAreReadOnce(t *testing.T) {
	r := &Request{Data: []byte(`{"a":"x"}`), Headers: http.Header{"A": {"y"}}}
	e, err := CompileExpression(`event.data.a + event.headers["a"]`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := e.Text(r); got != "xy" || err != nil {
			t.Errorf("it is %q: %v", got, err)
		}
		r.Data, r.Headers = []byte(`{"a":"another"}`), nil
	}
}

// TestExpressionsCostLess: any client that knows a source's address can make its expressions run.
func TestExpressionsCostLess(t *testing.T) {
	data := `{"s":"` + strings.Repeat("a", 8000) + `","l":[` + strings.Repeat("0,", 999) + `0]}`
	for _, text := range []string{`event.data.s.matches("(a|b)*(c|d)*(a|b)*c") ? "x" : "y"`, `event.data.l.all(x, x == 0) ? "x" : "y"`} {
		e, err := CompileExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Text(&Request{Data: []byte(data)}); err == nil {
			t.Errorf("%s is %q", text, got)
		}
		f, err := Compile(strings.TrimSuffix(text, ` ? "x" : "y"`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Match(&grapnel.Event{Data: []byte(data), ContentType: grapnel.JSONType}); err != nil {
			t.Errorf("as a filter: %v", err)
		}
	}
}

// Filters and expressions share the limits of their texts.
func TestBadExpressions(t *testing.T) {
	for expression, part := range map[string]string{
		``: "yntax error", `event.nope`: "undefined field 'nope'", `event.metadata`: "undefined field", `true`: "this one is a bool",
		`event.headers`: "this one is a map", `1.5`: "this one is a double",
		strings.Repeat("x", MaxFilterLength+1): "an expression has at most 4096 bytes",
		`"a".matches("(") ? "x" : "y"`:         "missing closing )", `request.type`: "undeclared reference",
	} {
		_, err := CompileExpression(expression)
		var bad *CompileError
		if !errors.As(err, &bad) || !strings.Contains(bad.Detail, part) {
			t.Errorf("%.60q: %v, want %q", expression, err, part)
		}
	}
	// Work that grows with the data is stopped by the same cost.
	e, err := CompileExpression(`event.data.all(a, event.data.all(b, event.data.all(c, true))) ? "x" : "y"`)
	if err != nil {
		t.Fatal(err)
	}
	long := "[" + strings.TrimSuffix(strings.Repeat("1,", 500), ",") + "]"
	if _, err := e.Text(&Request{Data: []byte(long)}); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("an expression that works for long: %v", err)
	}
}

// TestIDExpressions: an id is of the body alone, and a number in it has all its digits.
func TestIDExpressions(t *testing.T) {
	data := `{"id":"evt_1","int":9007199254740993,"huge":123456789012345678901234567890,"fraction":1.50,"exponent":1e3,"minus":-0,
		"sub":{"list":[{"id":7}]},"nil":null,"flag":true,"empty":""}`
	for expression, want := range map[string]string{
		`event.data.id`: "evt_1", `event.data.int`: "9007199254740993", `event.data.huge`: "123456789012345678901234567890",
		`event.data.fraction`: "1.50", `event.data.exponent`: "1e3", `event.data.minus`: "-0", `event.data.sub.list[0].id`: "7",
		`event.data["id"]`: "evt_1", `event.data.id + "." + string(event.data.int)`: "evt_1.9007199254740993", `event.data.empty`: "",
		`has(event.data.uid) ? event.data.uid : event.data.id`: "evt_1",
	} {
		e, err := CompileID(expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		// the same request serves other expressions, which see numbers as numbers
		r := &Request{Data: []byte(data), Headers: http.Header{"A": {"b"}}}
		if got, err := e.Text(r); got != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", expression, got, err, want)
		}
		more, err := CompileExpression(`event.data.fraction > 1.25 ? "more" : "less"`)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := more.Text(r); got != "more" || err != nil {
			t.Errorf("after %s a comparison is %q, %v", expression, got, err)
		}
	}
	for _, expression := range []string{`event.data.missing`, `event.data.nil`, `event.data.flag`, `event.data.sub`, `event.data`, `event.data.id.x`} {
		e, err := CompileID(expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		for _, body := range []string{data, `[]`, `null`, `<a/>`, ``} {
			if got, err := e.Text(&Request{Data: []byte(body)}); err == nil {
				t.Errorf("%s of %.20s is %q", expression, body, got)
			}
		}
	}
	for _, expression := range []string{`event.headers["x-id"]`, `event.type`, `event.key`, `true`, ``} {
		if err := CheckID(expression); err == nil {
			t.Errorf("%s was taken for an id", expression)
		}
	}
}
