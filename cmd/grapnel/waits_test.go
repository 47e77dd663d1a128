package main

import (
	"strings"
	"testing"
)

// TestASourceThatWaits: who creates a source before its provider shows the secret learns the next
// step, and who sets the secret learns what became of the requests. Programs get only data.
func TestASourceThatWaits(t *testing.T) {
	const source = `{"id":"src_1","name":"stripe","tenant":"default","status":"enabled","ingest_url":"/in/src_1",` +
		`"verify":{"scheme":"stripe","secrets":[]},"created_at":"2026-01-02T03:04:05Z"`
	const unreachable = "A provider on the internet cannot reach 127.0.0.1."
	f := newFake(t, always(201, source+`,"waits_for_secret":true,"unreachable":"`+unreachable+`"}`))
	for _, command := range [][]string{{"sources", "create", "stripe", "--scheme", "stripe"}, {"sources", "get", "src_1"}} {
		r := invoke(t, f.env(), "", command...)
		if r.code != 0 || !strings.Contains(r.out, "enabled, waits for its secret") ||
			!strings.Contains(r.errs, "grapnel sources rotate-secret src_1 --secret @FILE") || !strings.Contains(r.errs, unreachable) {
			t.Errorf("%v: %d %s%s", command, r.code, r.out, r.errs)
		}
	}
	if r := invoke(t, f.env(), "", "sources", "get", "src_1", "-o", "json"); !strings.HasPrefix(r.out, "{") || strings.Contains(r.out, "rotate-secret src_1") {
		t.Errorf("%s", r.out)
	}
	f = newFake(t, always(200, source+`,"waits_for_secret":false,"unreachable":null,"released":{"events":3,"duplicates":1,"conflicts":0,"quarantined":2}}`))
	r := invoke(t, f.env(), "", "sources", "rotate-secret", "src_1", "--secret", "whsec_of_stripe")
	if r.code != 0 || !strings.Contains(r.out, "3 events, 1 duplicate, 0 conflicts; 2 still in quarantine") || r.errs != "" {
		t.Errorf("%d %s%s", r.code, r.out, r.errs)
	}
}
