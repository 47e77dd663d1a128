package match

import (
	"errors"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// FuzzFilter compiles any text and evaluates what compiles against any data: no panic, an error
// that says where, and a reason exactly when there is no answer.
func FuzzFilter(f *testing.F) {
	data := `{"amount":250,"l":[1,2,3],"s":"abc","n":null,"o":{"a":{"b":[{}]}}}`
	for _, filter := range []string{
		`event.type == "invoice.paid"`, `event.data.amount > 100`, `has(event.data.o.a) && event.data.l.exists(x, x in [1, 2])`,
		`event.data.s.matches("^a.*c$") || event.metadata["k"] == "v"`, `event == event`, `dyn(event).type == "x"`, `event.data[0]`,
		`{event.key: 1}[event.key] == 1`, `[event][0].type == ""`, `type(event) == type(1)`, `event.data.l.map(x, x * 2) == [2, 4, 6]`,
		`timestamp(event.data.s) < timestamp("2026-01-01T00:00:00Z")`, `grapnel.Event{type: "x"} == event`, `has(event.key)`, "\xff", `(`,
		`event.data.l.exists_one(x, x == 1) ? true : false`, `string(event.data.amount) + event.key == b"x"`, `google.protobuf.Any{} == null`,
	} {
		f.Add(filter, data)
	}
	f.Add(`event.data`, `[`)
	f.Fuzz(func(t *testing.T, filter, data string) {
		compiled, err := Compile(filter)
		if err != nil {
			var bad *CompileError
			if !errors.As(err, &bad) || bad.Line < 1 || bad.Column < 1 || bad.Detail == "" {
				t.Fatalf("%q: %#v", filter, err)
			}
			return
		}
		ev := &grapnel.Event{Type: "invoice.paid", Key: "inv_1", Data: []byte(data), Metadata: map[string]string{"k": "v"}}
		if ok, err := compiled.Match(ev); ok && err != nil {
			t.Fatalf("%q passes and fails: %v", filter, err)
		}
	})
}
