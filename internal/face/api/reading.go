package api

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
)

// handler is what a route does with a call that has passed all stages.
type handler = func(*api, *call) (answer, error)

// reading is the handler of a route whose body is a T. The faults of the body come first.
func reading[T any](handle func(*api, *call, *T) (answer, error)) handler {
	return func(a *api, c *call) (answer, error) {
		var f strict.Faults
		in := decode[T](c.body, &f)
		if err := f.Err(); err != nil {
			return answer{}, err
		}
		return handle(a, c, &in)
	}
}

// newReason is the body of requests that need only a reason.
type newReason struct {
	Reason string `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"reason for the audit"`
}

// ordered is the handler of a route whose body says only why.
func ordered(handle func(*api, *call, grapnel.By) (answer, error)) handler {
	return reading(func(a *api, c *call, in *newReason) (answer, error) { return handle(a, c, c.by(in.Reason)) })
}

// by is who asks, and why.
func (c *call) by(reason string) grapnel.By { return grapnel.By{Actor: c.key.ID, Reason: reason} }

// reasonParam is the reason of requests whose body is something else, or that have none.
var reasonParam = param{name: "reason", form: "reason", doc: "reason for the audit; at most 500 characters"}

// reason is why, from the query.
func (c *call) reason() string { return c.query.text(reasonParam.name) }
