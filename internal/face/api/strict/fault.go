package strict

import (
	"fmt"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// Faults gathers all faults of a request, so that its sender learns them at once.
type Faults struct {
	Fields  []grapnel.Field
	Instead error // the answer if it is not nil, whatever else is wrong
}

// MostFaults bounds the answer, and the work that a body full of nonsense causes.
const MostFaults = 20

// Add adds a fault, unless there are enough.
func (f *Faults) Add(pointer, format string, args ...any) {
	if !f.Full() {
		f.Fields = append(f.Fields, grapnel.Field{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
}

// Full says whether there are MostFaults faults, so that looking for more is in vain.
func (f *Faults) Full() bool { return len(f.Fields) >= MostFaults }

// Err is nil while nothing is wrong.
func (f *Faults) Err() error {
	if f.Instead != nil {
		return f.Instead
	}
	if len(f.Fields) == 0 {
		return nil
	}
	first := f.Fields[0]
	detail := strings.TrimPrefix(first.Pointer+": "+first.Detail, ": ")
	if more := len(f.Fields) - 1; more > 0 {
		detail += fmt.Sprintf(" (and %d more)", more)
	}
	return &grapnel.Error{Code: grapnel.CodeInvalid, Detail: detail, Fields: f.Fields}
}

// Escape makes a member's name a token of a JSON pointer.
func Escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
