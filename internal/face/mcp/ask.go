package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// wrong is a fault of an argument, with its name as the agent wrote it.
func wrong(argument, format string, args ...any) error {
	return fmt.Errorf("%s: %s", argument, fmt.Sprintf(format, args...))
}

// refused is an error as an agent reads it. The server's sentence may have text of others in it, so
// it is quoted.
func (r *room) refused(err error) error {
	var no *client.Error
	var lost *client.Unreachable
	var local *grapnel.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the call took too long and was given up; ask for less")
	case errors.Is(err, context.Canceled):
		return errors.New("the call was cancelled")
	case errors.As(err, &lost):
		return fmt.Errorf("no answer came from the Grapnel server at %s", lost.Server)
	case errors.As(err, &no):
		text := fmt.Sprintf("the server refused with status %d (%s): %s", no.Status, cmp.Or(no.Code, "no code"), r.payload(no.Error()))
		if no.RetryAfter > 0 {
			text += fmt.Sprintf("; ask again after %s", no.RetryAfter)
		}
		return errors.New(text)
	case errors.As(err, &local):
		for _, f := range local.Fields {
			err = fmt.Errorf("%w; %s: %s", err, f.Pointer, f.Detail)
		}
	}
	return err
}

// rows is the number of rows to ask for: an agent's wish, within the limit.
func (r *room) rows(asked int) int {
	if asked < 1 {
		return min(20, r.Bounds.Rows)
	}
	return min(asked, r.Bounds.Rows)
}

func (r *room) text(text string) quoted    { return quote(text, r.Bounds.Text) }
func (r *room) payload(text string) quoted { return quote(text, r.Bounds.Payload) }

// moment reads a time, or how long ago it was.
func (r *room) moment(argument, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return &t, nil
	}
	ago, err := policy.ParseDuration(text)
	if err != nil || ago < 0 {
		return nil, wrong(argument, "%q is no time; give one such as 2026-01-31T12:00:00Z, or 6h for six hours ago", text)
	}
	t := r.Clock().Add(-ago)
	return &t, nil
}

// since is the moment as a time; zero: none.
func (r *room) since(argument, text string) (time.Time, error) {
	t, err := r.moment(argument, text)
	if t == nil {
		return time.Time{}, err
	}
	return *t, err
}

// chosen refuses a value that is none of a list.
func chosen(argument, value string, of ...string) error {
	for _, one := range of {
		if value == one {
			return nil
		}
	}
	return wrong(argument, "%q is unknown; give one of %s", value, strings.Join(of, ", "))
}

// endpoint is the id of an endpoint that is given by its id, its name, or a part of the name that
// no other endpoint has.
func (r *room) endpoint(ctx context.Context, argument, text, tenant string) (string, error) {
	if text == "" {
		return "", wrong(argument, "give the id or the name of an endpoint")
	}
	if strings.HasPrefix(text, "ep_") {
		return text, nil
	}
	page, err := r.Client.Endpoints(ctx, client.EndpointFilter{Search: text, Tenant: tenant, Limit: r.Bounds.Rows})
	if err != nil {
		return "", err
	}
	var whole, some []string
	for i := range page.Data {
		e := &page.Data[i]
		if some = append(some, e.ID); nameOf(e) == text {
			whole = append(whole, e.ID)
		}
	}
	if len(whole) > 0 {
		some = whole
	}
	switch len(some) {
	case 0:
		return "", wrong(argument, "no endpoint has the name %q; find lists them", text)
	case 1:
		return some[0], nil
	}
	return "", wrong(argument, "%q is the name of several endpoints, or a part of it: %s; give the id of one", text,
		strings.Join(some[:min(len(some), 10)], ", "))
}

// nameOf is what people call an endpoint: its description, else its URL without scheme and query.
func nameOf(e *client.Endpoint) string {
	address, _, _ := strings.Cut(e.URL, "?")
	return cmp.Or(e.Description, words.Where(address))
}
