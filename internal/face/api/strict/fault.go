package strict

import (
	"fmt"
	"slices"
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

// Add adds a fault, unless there are enough, or the member has one: the first says what to change,
// and a later one may be its consequence.
func (f *Faults) Add(pointer, format string, args ...any) {
	same := func(is grapnel.Field) bool { return is.Pointer == pointer }
	twice := strings.HasPrefix(pointer, "/") && slices.ContainsFunc(f.Fields, same)
	if !f.Full() && !twice {
		f.Fields = append(f.Fields, grapnel.Field{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
}

// Free says that neither a member, nor a part of it, nor the object around it has a fault. Only then
// can its value be judged.
func (f *Faults) Free(pointer string) bool {
	return !slices.ContainsFunc(f.Fields, func(is grapnel.Field) bool {
		return strings.HasPrefix(is.Pointer+"/", pointer+"/") || strings.HasPrefix(pointer+"/", is.Pointer+"/")
	})
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
