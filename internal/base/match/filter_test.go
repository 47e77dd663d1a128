package match

import (
	"errors"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

func invoice() *grapnel.Event {
	return &grapnel.Event{
		Tenant: "acme", Type: "invoice.paid", Key: "inv_123", ContentType: grapnel.JSONType,
		Metadata: map[string]string{"region": "eu"},
		Data: []byte(`{"id":9007199254740993,"amount":250,"huge":18446744073709551615,"rate":0.5,"big":1e400,"paid":true,"currency":"EUR","note":null,` +
			`"lines":[{"sku":"a","qty":2},{"sku":"b","qty":5}],"customer":{"email":"x@example.com"}}`),
	}
}

func TestFilters(t *testing.T) {
	cases := []struct {
		filter string
		want   bool
		reason string // a part of it, when the filter cannot be evaluated
	}{
		{`true`, true, ""},
		{`event.type == "invoice.paid"`, true, ""},
		{`event.type.startsWith("order.")`, false, ""},
		{`event.key == "inv_123"`, true, ""},
		{`has(event.key) && has(event.data) && has(event.metadata)`, true, ""},
		{`event.metadata.region == "eu"`, true, ""},
		{`event.metadata["region"] in ["eu", "us"]`, true, ""},
		{`"region" in event.metadata`, true, ""},
		{`event.metadata.zone == "a"`, false, "no such key: zone"},
		{`has(event.metadata.zone) && event.metadata.zone == "a"`, false, ""},
		{`event.data.amount > 100`, true, ""},
		{`event.data.amount > 100.5`, true, ""},
		{`event.data.amount == 250.0`, true, ""},
		{`event.data.amount % 2 == 0`, true, ""},
		{`event.data.rate < 1`, true, ""},
		{`event.data.big > 1e300`, true, ""},
		{`event.data.id == 9007199254740993`, true, ""},
		{`event.data.id == 9007199254740992`, false, ""},
		{`event.data.huge == 18446744073709551615u`, true, ""},
		{`event.data.huge == 18446744073709551614u`, false, ""},
		{`event.data.huge > event.data.id && event.data.huge > 1`, true, ""},
		{`event.data.paid`, true, ""},
		{`!event.data.paid`, false, ""},
		{`event.data.note == null`, true, ""},
		{`event.data.lines.exists(l, l.sku == "b" && l.qty > 4)`, true, ""},
		{`event.data.lines.all(l, l.qty > 4)`, false, ""},
		{`size(event.data.lines) == 2`, true, ""},
		{`event.data.lines[1].qty == 5`, true, ""},
		{`event.data.lines[7].qty == 5`, false, "index out of bounds: 7"},
		{`event.data.customer.email.matches("^[^@]+@example\\.com$")`, true, ""},
		{`event.data["customer"]["email"].endsWith("@example.com")`, true, ""},
		{`has(event.data.customer.phone)`, false, ""},
		{`event.data.customer.phone == "1"`, false, "no such key: phone"},
		{`event.data.missing > 3 || event.type == "invoice.paid"`, true, ""},
		{`event.data.currency > 3`, false, "no such overload"},
		{`event.data.currency`, false, "string, not true or false"},
		{`event.data`, false, "map, not true or false"},
		{`event == event`, false, "cannot be evaluated: event is not a value; name one of its fields"},
	}
	for _, c := range cases {
		f, err := Compile(c.filter)
		if err != nil {
			t.Errorf("%s: %v", c.filter, err)
			continue
		}
		got, err := f.Match(invoice())
		if got != c.want {
			t.Errorf("%s is %v, want %v", c.filter, got, c.want)
		}
		if (err != nil) != (c.reason != "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: reason %v, want %q", c.filter, err, c.reason)
		}
	}
}

func TestFiltersOnDataThatAreNotJSON(t *testing.T) {
	for _, data := range []string{"", "<xml/>", `{"a":1} {"a":2}`, `{"a":1}x`, "\xff\xfe"} {
		ev := invoice()
		ev.Data = []byte(data)
		for filter, want := range map[string]bool{
			`event.type == "invoice.paid"`:    true,
			`has(event.data)`:                 false,
			`event.data.a == 1`:               false,
			`event.data == null`:              false,
			`event.key == "" || event.data.a`: false,
		} {
			f, err := Compile(filter)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Match(ev)
			if got != want {
				t.Errorf("%q with data %q is %v", filter, data, got)
			}
			if reads := strings.Contains(filter, "data.") || strings.Contains(filter, "data =="); reads && !errors.Is(err, errNotJSON) &&
				(err == nil || !strings.Contains(err.Error(), errNotJSON.Error())) {
				t.Errorf("%q with data %q: reason %v", filter, data, err)
			}
		}
	}
}

func TestDataAreDecodedOnceAndOnlyIfRead(t *testing.T) {
	v := &view{event: invoice()}
	for filter, reads := range map[string]bool{`event.type == "x" && event.data.amount > 1`: false, `event.metadata.region == "eu"`: false} {
		f, err := Compile(filter)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.match(v); err != nil || v.decoded != reads {
			t.Errorf("%s: decoded %v, %v", filter, v.decoded, err)
		}
	}
	f, err := Compile(`event.data.amount == 250`)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := f.match(v); !ok || err != nil {
		t.Fatal(ok, err)
	}
	v.event.Data = []byte(`garbage`)
	if ok, err := f.match(v); !ok || err != nil {
		t.Errorf("the second filter read the data again: %v, %v", ok, err)
	}
}

func TestBadFiltersSayWhere(t *testing.T) {
	cases := []struct {
		filter       string
		line, column int
		part         string
	}{
		{``, 1, 1, "yntax error"},
		{`   `, 1, 4, "yntax error"},
		{`event.type = "x"`, 1, 12, "token recognition error"},
		{`event.type == "x`, 1, 15, "yntax error"},
		{`evnt.type == "x"`, 1, 1, "undeclared reference to 'evnt'"},
		{"event.type == \"x\" &&\n  event.colour == \"red\"", 2, 8, "undefined field 'colour'"},
		{`event.type > 3`, 1, 12, "no matching overload"},
		{`event.type`, 1, 1, "true or false, this one is a string"},
		{`size(event.metadata)`, 1, 1, "true or false, this one is a int"},
		{`nope(event)`, 1, 5, "undeclared reference to 'nope'"},
		{`event.key.matches("(")`, 1, 19, "missing closing )"},
		{`event.key.matches("((a{900}){900})")`, 1, 19, "invalid repeat count"},
		{`event.key.matches("(a{500}){2}")`, 1, 19, "more than 1000"},
		{`event.key.matches(event.data.pattern)`, 1, 29, "must be written in the filter"},
		{`"a".matches("a" + "b")`, 1, 17, "must be written in the filter"},
		{strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), 1, 1, "recursion limit"},
		{strings.Repeat("[", 200) + strings.Repeat("]", 200) + "== []", 1, 1, "recursion limit"},
		{strings.Repeat("x", MaxFilterLength+1), 1, 1, "at most 4096 bytes"},
		{`type(event) == grapnel.Event`, 1, 1, "undefined type"},
	}
	for _, c := range cases {
		_, err := Compile(c.filter)
		var bad *CompileError
		if !errors.As(err, &bad) {
			t.Errorf("%.60q: %v", c.filter, err)
			continue
		}
		if bad.Line != c.line || bad.Column != c.column || !strings.Contains(bad.Detail, c.part) {
			t.Errorf("%.60q: %v, want line %d, column %d, %q", c.filter, err, c.line, c.column, c.part)
		}
	}
}
