package main

import (
	"go/ast"
	"slices"
	"testing"
)

// mostMethods is the number of methods that a reader can hold of one type.
const mostMethods = 40

// crowded are types that still have more. This list only gets shorter.
var crowded = []string{
	"client.Client", "cmd/grapnel.session", "internal/face/api.api", "internal/face/web.visit",
	"internal/nodes/configuration.Book", "internal/nodes/ownership.Shards", "internal/proof/sim.member", "internal/proof/sim.world",
	"internal/proof/sim/history.checker", "internal/send/core.Core", "internal/store/memory.Faulty", "internal/store/memory.model",
	"internal/store/storetest.driver",
	"internal/store/storetest.machine", "internal/store/storetest.model",
}

// TestNoTypeHasTooManyMethods: a type with more methods does several jobs. Its state splits into
// types that each do one, or the methods become functions that get it. Embedded types count for
// themselves.
func TestNoTypeHasTooManyMethods(t *testing.T) {
	t.Chdir(root)
	methods := map[string]int{}
	for _, s := range product(t) {
		for _, d := range s.file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
				methods[s.dir+"."+receiverOf(f)]++
			}
		}
	}
	for name, n := range methods {
		if n > mostMethods && !slices.Contains(crowded, name) {
			t.Errorf("%s has %d methods, at most %d", name, n, mostMethods)
		}
	}
	for _, name := range crowded {
		if methods[name] <= mostMethods {
			t.Errorf("%s has %d methods: take it off the list crowded", name, methods[name])
		}
	}
}
