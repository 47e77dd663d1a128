package egress

import (
	"context"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/transform"
)

// unsendable is why an event has no body for an endpoint, now or ever.
type unsendable struct{ reason string }

func (e *unsendable) Error() string { return e.reason }

// Bodiless begins the reason of a delivery whose transform failed. The error that follows may quote
// the event's data.
const Bodiless = "its endpoint's transform gives no body for this event: "

// deferred says that a tenant's transforms have used up their part of the processors for now.
type deferred struct{}

func (deferred) Error() string {
	return "the transforms of the tenant's endpoints have used up their share of the processor"
}

// shaped is the body of an event in a shape. The transforms of a tenant get 1/ShapePart of one
// processor: beyond the burst, ShapePart times the duration of an evaluation has to pass before the
// next one.
func (s *Sender) shaped(ctx context.Context, r *route, m *message, shape grapnel.Shape, e *grapnel.Event) (
	body []byte, contentType string, err error) {
	if shape.Transform == "" {
		body, contentType = formatted(m, shape.Format, e)
		return body, contentType, nil
	}
	t, err := r.transform(s, shape.Transform)
	if err != nil {
		return nil, "", &unsendable{fmt.Sprintf("its endpoint's transform does not compile: %s", err)}
	}
	if body, err = s.applied(ctx, t, e.Tenant, envelope(e)); err == nil {
		body = enclosed(shape.Format, body)
	}
	return body, grapnel.JSONType, err
}

// applied evaluates a transform when the tenant's part allows it, as of the moment at which a
// processor is free: the evaluations that waited before it may have used the part up.
func (s *Sender) applied(ctx context.Context, t *transform.Transform, tenant string, input []byte) (body []byte, err error) {
	select {
	case s.shaping <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closing.Done():
		return nil, s.closing.Err()
	}
	defer func() { <-s.shaping }()
	began := s.opts.Now()
	if !s.shapes.Within(tenant, began) {
		return nil, deferred{}
	}
	body, err = t.Apply(input)
	ended := s.opts.Now()
	s.shapes.Use(tenant, began, ended, max(ended.Sub(began), 0)*time.Duration(s.bounds.ShapePart))
	if err != nil {
		return nil, &unsendable{Bodiless + err.Error()}
	}
	return body, nil
}

// transform compiles an expression, once for a route.
func (r *route) transform(s *Sender, text string) (*transform.Transform, error) {
	r.shapes.Lock()
	defer r.shapes.Unlock()
	if t := r.transforms[text]; t != nil {
		return t, nil
	}
	t, err := transform.Compile(text, s.bounds.Transform, s.opts.Now)
	if err != nil {
		return nil, err
	}
	if r.transforms == nil {
		r.transforms = map[string]*transform.Transform{}
	}
	r.transforms[text] = t
	return t, nil
}
