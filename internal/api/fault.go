package api

import (
	"fmt"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// faults gathers what is wrong with a request, so that its sender learns everything at once.
type faults struct {
	fields []grapnel.Field
	away   error // the request is about a tenant that is in another cell, where it may be right as it is
}

// mostFaults bounds the answer, and the work that a body full of nonsense causes.
const mostFaults = 20

func (f *faults) add(pointer, format string, args ...any) {
	if !f.full() {
		f.fields = append(f.fields, grapnel.Field{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
}

func (f *faults) full() bool { return len(f.fields) >= mostFaults }

// err is nil while nothing is wrong.
func (f *faults) err() error {
	if f.away != nil {
		return f.away
	}
	if len(f.fields) == 0 {
		return nil
	}
	first := f.fields[0]
	detail := strings.TrimPrefix(first.Pointer+": "+first.Detail, ": ")
	if more := len(f.fields) - 1; more > 0 {
		detail += fmt.Sprintf(" (and %d more)", more)
	}
	return &grapnel.Error{Code: grapnel.CodeInvalid, Detail: detail, Fields: f.fields}
}

// escape makes a member's name a token of a JSON pointer.
func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
