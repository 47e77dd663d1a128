package engine

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// register creates an event type that is checked.
func (b *bench) register(tenant, name string, schemas ...string) grapnel.EventType {
	b.t.Helper()
	et := grapnel.EventType{ID: "typ_" + tenant + "_" + name, Tenant: tenant, Name: name, Check: grapnel.CheckRefuse}
	for _, schema := range schemas {
		et.Versions = append(et.Versions, grapnel.TypeVersion{Schema: schema})
	}
	put, err := b.engine.PutEventType(b.t.Context(), store.Everyone(), et, store.With{})
	if err != nil {
		b.t.Fatal(err)
	}
	et.Revision = put.Revision
	return et
}

func eventOf(tenant, kind, data string) store.Incoming {
	return store.Incoming{Event: &grapnel.Event{ID: "evt", Tenant: tenant, Type: kind, Data: []byte(data), ContentType: grapnel.JSONType}}
}

// TestCheckFollowsTheConfiguration: a check begins, changes and ends with the answer to the change.
func TestCheckFollowsTheConfiguration(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		faults := func(events ...store.Incoming) string {
			t.Helper()
			found, err := b.engine.Check(t.Context(), events)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(found)
		}
		text, number := eventOf("acme", "a", `"x"`), eventOf("acme", "a", `1`)
		if got := faults(text, number); got != "map[]" {
			t.Errorf("no type is registered: %s", got)
		}
		et := b.register("acme", "a", `{"type":"string"}`)
		got := faults(text, number, eventOf("bolt", "a", `1`), eventOf("acme", "b", `1`))
		if got != "map[1:[{/data must be a string, not an integer}]]" {
			t.Errorf("version 1: %s", got)
		}
		et.Versions = append(et.Versions, grapnel.TypeVersion{Schema: `{"type":"integer"}`})
		put, err := b.engine.PutEventType(t.Context(), store.Everyone(), et, store.With{})
		if err != nil {
			t.Fatal(err)
		}
		if got := faults(text, number); got != "map[0:[{/data must be an integer, not a string}]]" {
			t.Errorf("version 2: %s", got)
		}
		et.Check, et.Revision = grapnel.CheckOff, put.Revision
		if _, err := b.engine.PutEventType(t.Context(), store.Everyone(), et, store.With{}); err != nil {
			t.Fatal(err)
		}
		if got := faults(text, number); got != "map[]" || b.engine.Snapshot().Checks() {
			t.Errorf("off: %s", got)
		}
		err = b.engine.DeleteEventType(t.Context(), store.Of("acme"), et.ID, store.With{})
		if err != nil || len(b.engine.EventTypes(store.Everyone())) != 0 {
			t.Errorf("deleting it: %v", err)
		}
	})
}

// TestCostlySchemasTakeTheirTenantsAllowance: a schema that costs too much ends the check, nothing
// of the work is for free, and another tenant's allowance is untouched.
func TestCostlySchemasTakeTheirTenantsAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const units = 300_000
		b := newTunedBench(t, memory.New(), func(o *Options) {
			o.Bounds.SchemaWork, o.Bounds.FilterRate, o.Bounds.FilterBurst = units, 100_000, 100_000
		})
		defer b.close()
		b.register("hostile", "a", `{"$defs":{"a":{"type":"object","anyOf":[{"properties":{"x":{"$ref":"#/$defs/a"}}},
			{"properties":{"x":{"$ref":"#/$defs/a"}}}]}},"$ref":"#/$defs/a"}`)
		b.register("honest", "a", `{"type":"object"}`)
		costly := eventOf("hostile", "a", strings.Repeat(`{"x":`, 60)+"1"+strings.Repeat("}", 60))
		_, err := b.engine.Check(t.Context(), []store.Incoming{costly})
		if grapnel.CodeOf(err) != grapnel.CodeSchemaTooCostly {
			t.Errorf("a schema that costs too much: %v", err)
		}
		if found, err := b.engine.Check(t.Context(), []store.Incoming{eventOf("honest", "a", `{}`)}); err != nil || found != nil {
			t.Errorf("another tenant: %v, %v", found, err)
		}
		work := b.engine.filters
		within := func(tenant string) bool {
			p := work.pass(tenant)
			p.begin()
			defer p.end(0)
			return p.charge(0)
		}
		if within("hostile") || !within("honest") {
			t.Errorf("within their bursts are: the hostile tenant %v, the honest one %v", within("hostile"), within("honest"))
		}
		// While its turn is taken, its further checks wait; those of the other tenant do not.
		p := work.pass("hostile")
		if err := p.step(t.Context(), 0); err != nil || !p.holds {
			t.Fatalf("beyond its burst the tenant has no turn: %v", err)
		}
		done := make(chan error)
		go func() {
			_, err := b.engine.Check(t.Context(), []store.Incoming{eventOf("hostile", "a", `1`)})
			done <- err
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a second check of the tenant ran beside the first")
		default:
		}
		if _, err := b.engine.Check(t.Context(), []store.Incoming{eventOf("honest", "a", `{}`)}); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		p.end(0)
		if err := <-done; err != nil {
			t.Errorf("after its turn: %v", err)
		}
	})
}

// BenchmarkCheck is what publishing pays for checks: nothing is registered, another tenant has a
// checked type, the event's own type is checked.
func BenchmarkCheck(b *testing.B) {
	const data = `{"id":"in_1","amount":1200,"currency":"EUR","customer":{"id":"cus_1","email":"a@b.example"},
		"lines":[{"sku":"x","n":1},{"sku":"y","n":2}]}`
	const schema = `{"type":"object","required":["id","amount"],"properties":{"id":{"type":"string"},"amount":{"type":"integer","minimum":1},
		"currency":{"enum":["EUR","USD"]},"customer":{"type":"object","properties":{"id":{"type":"string"},"email":{"type":"string"}}},
		"lines":{"type":"array","items":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"},"n":{"type":"integer"}}}}}}`
	for _, c := range []struct{ name, registered string }{{"none", ""}, {"of another tenant", "bolt"}, {"checked", "acme"}} {
		b.Run(c.name, func(b *testing.B) {
			e := checker(b, c.registered, schema)
			events := []store.Incoming{eventOf("acme", "a", data)}
			b.ReportAllocs()
			for b.Loop() {
				if found, err := e.Check(b.Context(), events); err != nil || found != nil {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// checker is an engine whose only event type is that of a tenant; empty: there is none.
func checker(b *testing.B, tenant, schema string) *Engine {
	b.Helper()
	s := memory.New()
	if tenant != "" {
		et := grapnel.EventType{ID: "typ_1", Tenant: tenant, Name: "a", Check: grapnel.CheckRefuse,
			Versions: []grapnel.TypeVersion{{Schema: schema}}}
		if _, err := s.PutEventType(b.Context(), store.Everyone(), et, store.With{}); err != nil {
			b.Fatal(err)
		}
	}
	sender := egress.New(egress.Options{Node: "n1"})
	e, err := New(b.Context(), Options{Store: s, Sender: sender, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sender.Close)
	return e
}
