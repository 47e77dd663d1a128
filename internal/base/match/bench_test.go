package match

import (
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// BenchmarkMatch finds the endpoints of one event among 500 of its tenant and 5,000 of others.
func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct {
		name   string
		types  func(i int) []string
		filter string
	}{
		{"exact types, 1 in 100 wants it", func(i int) []string { return []string{fmt.Sprintf("kind%d.paid", i%100)} }, ""},
		{"patterns, 1 in 100 wants it", func(i int) []string { return []string{fmt.Sprintf("kind%d.*", i%100)} }, ""},
		{"all want it", func(int) []string { return nil }, ""},
		{"5 filters read the data", func(i int) []string { return []string{fmt.Sprintf("kind%d.paid", i%100)} }, `event.data.amount > 100`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var endpoints []grapnel.Endpoint
			for i := range 500 {
				endpoints = append(endpoints, endpoint("acme", fmt.Sprintf("ep_%04d", i), c.filter, c.types(i)...))
			}
			for i := range 5_000 {
				endpoints = append(endpoints, endpoint(fmt.Sprintf("t%d", i%100), fmt.Sprintf("ep_x%04d", i), "", c.types(i)...))
			}
			r := router(b, endpoints...)
			ev := invoice()
			ev.Type = "kind7.paid"
			b.ReportAllocs()
			for b.Loop() {
				matched(r, ev)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(`event.data.amount > 100 && event.data.currency in ["EUR", "USD"]`); err != nil {
			b.Fatal(err)
		}
	}
}
