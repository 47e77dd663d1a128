package catalogue

import (
	"fmt"

	"github.com/grapnelhq/grapnel"
)

// Judge compares an event with the version of its type that it follows. schema returns the version
// compiled; nil: it does not compile any more. The pointers of the faults begin at the event:
// /data/amount. The metadata grapnel.SchemaVersionKey is judged as well.
func Judge(t *grapnel.EventType, ev *grapnel.Event, m *Meter, schema func(n int) (*Schema, error)) ([]Fault, error) {
	n, there := t.FollowedBy(ev)
	if !there {
		must := fmt.Sprintf("must be the number of a version of %s, 1 to %d", t.Name, len(t.Versions))
		return []Fault{{"/metadata/" + grapnel.SchemaVersionKey, must}}, nil
	}
	if !ev.PromisesJSON() {
		return []Fault{{"/data", "must be JSON (" + grapnel.JSONType + "), because the event type has a schema"}}, nil
	}
	s, err := schema(n)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return []Fault{{"/data", fmt.Sprintf("cannot be checked: this server does not accept the schema of version %d of %s", n, t.Name)}}, nil
	}
	faults, err := s.Check(ev.Data, m)
	for i := range faults {
		faults[i].Pointer = "/data" + faults[i].Pointer
	}
	return faults, err
}
