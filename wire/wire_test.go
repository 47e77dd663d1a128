package wire

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnelhq/grapnel"
)

func TestZeroValuesAreNullWhereTagsSaySo(t *testing.T) {
	raw, err := Encode(Selection{})
	want := `{"from":null,"to":null,"event_types":[],"keys":[],"status":[],"error_class":null,"status_code":null,"deliveries":null,"again":false}`
	if err != nil || string(raw) != want {
		t.Errorf("Encode wrote %s, %v; want %s", raw, err, want)
	}
}

func TestWhatWasWrittenIsRead(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	cut := at.UTC().Truncate(time.Microsecond)
	for _, c := range []struct{ in, want any }{
		{&Replay{}, &Replay{}},
		{&Replay{ID: "rpl_1", Status: grapnel.ReplayStatus("paused"), Reason: "a <b> & \"c\"", Rate: 0.5, StopAfter: 3,
			StartedAt: at, FinishedAt: &at,
			Selection: Selection{From: &at, EventTypes: []string{"a.*"}, Status: []grapnel.Status{grapnel.Failed}, Deliveries: 2}},
			&Replay{ID: "rpl_1", Status: grapnel.ReplayStatus("paused"), Reason: "a <b> & \"c\"", Rate: 0.5, StopAfter: 3,
				StartedAt: cut, FinishedAt: &cut,
				Selection: Selection{From: &cut, EventTypes: []string{"a.*"}, Status: []grapnel.Status{grapnel.Failed}, Deliveries: 2}}},
		{&Item{OriginalID: "dlv_1", MadeAt: at}, &Item{OriginalID: "dlv_1", MadeAt: cut}},
		{&Key{ID: "key_1", Scopes: []grapnel.Scope{grapnel.ScopeRead}, CreatedAt: at},
			&Key{ID: "key_1", Scopes: []grapnel.Scope{grapnel.ScopeRead}, CreatedAt: cut}},
	} {
		raw, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		read := reflect.New(reflect.TypeOf(c.in).Elem()).Interface()
		if err := json.Unmarshal(raw, read); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if d := cmp.Diff(c.want, read, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Raw{})); d != "" {
			t.Errorf("%s: %s", raw, d)
		}
	}
}
