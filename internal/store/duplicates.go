package store

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/grapnelhq/grapnel"
)

// DuplicatesKind is the kind of the documents that name the events which were published, or
// received, again. There is one for each tenant, with the tenant as its id.
const DuplicatesKind = "duplicates"

// MostDuplicates is how many events such a document names: those that came again last.
const MostDuplicates = 200

// DecodeDuplicates reads such a document, the event that came again last first.
func DecodeDuplicates(body []byte) (all []grapnel.Duplicate, err error) {
	return all, json.Unmarshal(body, &all)
}

// EncodeDuplicates adds newer duplicates to those of a document and returns the new body.
func EncodeDuplicates(before, more []grapnel.Duplicate) ([]byte, error) {
	all := slices.Clone(before)
	for _, d := range more {
		i := slices.IndexFunc(all, func(old grapnel.Duplicate) bool { return old.Event == d.Event })
		if i < 0 {
			all = append(all, d)
			continue
		}
		old := &all[i]
		old.Times += d.Times
		if d.Last.After(old.Last) {
			old.Last, old.Source = d.Last, d.Source
		}
		if d.First.Before(old.First) {
			old.First = d.First
		}
	}
	SortDuplicates(all)
	return json.Marshal(all[:min(len(all), MostDuplicates)])
}

// SortDuplicates sorts by the last time, the latest first.
func SortDuplicates(all []grapnel.Duplicate) {
	slices.SortFunc(all, func(a, b grapnel.Duplicate) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Event, b.Event))
	})
}
