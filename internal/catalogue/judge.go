package catalogue

import (
	"fmt"

	"github.com/grapnelhq/grapnel"
)

// Judge compares an event with the version of its type that it follows. schema returns the version
// compiled, with the units that this took; nil: the version does not compile any more. The pointers
// of the faults begin at the event: /data/amount. What an event means by SchemaVersionKey is judged
// as well.
func Judge(t *grapnel.EventType, ev *grapnel.Event, units int64, schema func(n int) (*Schema, int64)) ([]Fault, int64, error) {
	n, there := t.FollowedBy(ev)
	if !there {
		return []Fault{{"/metadata/" + grapnel.SchemaVersionKey, fmt.Sprintf("must be the number of a version of %s, 1 to %d", t.Name, len(t.Versions))}}, 1, nil
	}
	if !ev.PromisesJSON() {
		return []Fault{{"/data", "must be JSON (" + grapnel.JSONType + "), because the event type has a schema"}}, 1, nil
	}
	s, did := schema(n)
	if s == nil {
		return []Fault{{"/data", fmt.Sprintf("cannot be checked: this server does not accept the schema of version %d of %s", n, t.Name)}}, did, nil
	}
	faults, more, err := s.Check(ev.Data, units-did)
	for i := range faults {
		faults[i].Pointer = "/data" + faults[i].Pointer
	}
	return faults, did + more, err
}
