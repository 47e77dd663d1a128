package engine

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

// TestNoticesAreDocumented: the members of the data of operational events about endpoints are those
// that the OpenAPI document says.
func TestNoticesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../face/api/openapi.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Webhooks map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema struct {
							Properties struct {
								Data struct{ Properties map[string]any }
							}
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]notice{
		grapnel.EventDeliveryFailed:    {loss: &loss{Key: "k", Blocked: true}},
		grapnel.EventEndpointFailing:   {Percent: 50},
		grapnel.EventEndpointRecovered: {}, grapnel.EventEndpointDisabled: {}, grapnel.EventEndpointEnabled: {},
	} {
		raw, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var is map[string]any
		if err := json.Unmarshal(raw, &is); err != nil {
			t.Fatal(err)
		}
		documented := doc.Webhooks[name].Post.RequestBody.Content["application/json"].Schema.Properties.Data.Properties
		if d := cmp.Diff(slices.Sorted(maps.Keys(is)), slices.Sorted(maps.Keys(documented))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
