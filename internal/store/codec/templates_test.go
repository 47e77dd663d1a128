package codec

import (
	"maps"
	"testing"

	"github.com/grapnelhq/grapnel/policy"
)

// TestHeadersOfEarlierVersions: braces in headers stored by versions without placeholders stay
// braces.
func TestHeadersOfEarlierVersions(t *testing.T) {
	earlier := `{"ID":"ep_1","Headers":{"X-A":"{\"a\":{{event.id}}}","X-B":"b"}}`
	ep, err := DecodeEndpoint(1, []byte(earlier))
	ep.Policy, _ = policy.Preset("standard")
	want := map[string]string{"X-A": `{{"a":{{{{event.id}}}}}}`, "X-B": "b"}
	for range 2 {
		if err != nil || !maps.Equal(ep.Headers, want) {
			t.Fatalf("%q, %v", ep.Headers, err)
		}
		var body []byte
		if body, err = EncodeEndpoint(ep); err == nil {
			ep, err = DecodeEndpoint(2, body)
		}
	}
}
