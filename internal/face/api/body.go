package api

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
)

// typeForm is what curl -d and several libraries say of any body when they were told nothing. No
// route takes forms, so it is read as if nothing had been said.
const typeForm = "application/x-www-form-urlencoded"

// readBody reads the body within the route's limit. What the content type and the encoding promise
// is checked first, so that nothing is read in vain.
func (a *api) readBody(c *call) error {
	in := c.route.body
	if in == nil || c.Request.Body == http.NoBody && in.optional {
		return nil
	}
	for _, coding := range c.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return grapnel.Errorf(grapnel.CodeUnsupported, "Content-Encoding %q is not supported; send the body unencoded.", coding)
		}
	}
	if err := in.accepts(c.Header); err != nil {
		return err
	}
	limit := a.largest(in.limit)
	if c.ContentLength > limit {
		a.discard(c)
		return tooLarge(limit)
	}
	body, err := a.receive(c, limit)
	switch {
	case grapnel.CodeOf(err) == grapnel.CodeOverloaded:
		a.release(c)
		a.discard(c)
		return err
	case int64(len(body)) > limit:
		a.discard(c)
		return tooLarge(limit)
	case err != nil:
		// The connection broke or the body did not end as announced; the answer most likely reaches no
		// caller.
		return grapnel.Errorf(grapnel.CodeMalformed, "The body ended before it was complete.")
	}
	c.body = body
	return nil
}

// largest is how many bytes that is.
func (a *api) largest(l limit) int64 {
	switch l {
	case perEvent:
		return a.MaxEvent + a.Bounds.EnvelopeBody
	case perData:
		return a.MaxEvent
	case perBatch:
		return a.Bounds.BatchBody
	case perReplay:
		return a.Bounds.ReplayBody
	case perSettle:
		return a.Bounds.SettleBody
	default:
		return a.Bounds.ManagementBody
	}
}

func (a *api) discard(c *call) {
	_ = c.connection().SetReadDeadline(time.Now().Add(a.Bounds.DiscardTime)) // a caller that is slower does without
	_, _ = io.CopyN(io.Discard, c.Request.Body, a.Bounds.Discard)
}

func tooLarge(limit int64) error {
	return grapnel.Errorf(grapnel.CodeTooLarge, "The body is larger than %d bytes.", limit)
}

// receive reads a body into a buffer that grows with the bytes that arrive: announced ones take no
// memory. If the length was announced, the last buffer has exactly that size. Buffers are never
// shared: events keep their data in them.
func (a *api) receive(c *call, limit int64) (b []byte, err error) {
	most := limit + 1 // so that reading finds out that there is more
	if c.ContentLength >= 0 {
		most = c.ContentLength
	}
	for int64(len(b)) < most {
		if len(b) == cap(b) {
			size := min(max(4*int64(cap(b)), a.Bounds.BodyFirst), most)
			if err := a.hold(c, size-int64(cap(b))); err != nil {
				return nil, err
			}
			b = append(make([]byte, 0, size), b...)
		}
		n, err := c.Request.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == nil || int64(len(b)) == most:
		case err == io.EOF && c.ContentLength < 0: // as io.ReadAll does
			return b, nil
		default:
			return nil, err
		}
	}
	return b, nil
}

// accepts checks the content type. One that is absent is taken to be the route's own.
func (in *intake) accepts(h http.Header) error {
	if in.verbatim && len(in.types) == 0 {
		return nil
	}
	_, err := in.contentType(h)
	return err
}

func (in *intake) contentType(h http.Header) (string, error) {
	sent := h.Get("Content-Type")
	if sent == "" || sent == in.types[0] {
		return in.types[0], nil
	}
	name, parameters, err := mime.ParseMediaType(sent)
	if name == typeForm {
		return in.types[0], nil
	}
	if charset := parameters["charset"]; err == nil && (charset == "" || strings.EqualFold(charset, "utf-8")) {
		if slices.Contains(in.types, name) {
			return name, nil
		}
	}
	return "", grapnel.Errorf(grapnel.CodeUnsupported, "Content-Type %q is not supported here; send %s.", sent, strings.Join(in.types, " or "))
}

// checkBody checks that a JSON body is JSON. An empty one that may be empty becomes {}.
func (c *call) checkBody() error {
	in := c.route.body
	if in == nil || in.verbatim {
		return nil
	}
	if len(c.body) == 0 && in.optional {
		c.body = []byte("{}")
	}
	if in.deep {
		return strict.Check(c.body, deepest)
	}
	return strict.Check(c.body, grapnel.MaxDepth)
}

// deepest is how deep a document may be nested for the validator to look at it at all.
const deepest = 512

func (a *api) hold(c *call, bytes int64) error {
	c.held.tenant = c.key.Tenant
	err := a.Gate.hold(c.held.tenant, bytes)
	if err == nil {
		c.held.bytes += bytes
	}
	return err
}

// release returns the memory of a request's body, which must not be used any more.
func (a *api) release(c *call) {
	if c.held.bytes > 0 {
		a.Gate.release(c.held.tenant, c.held.bytes)
		c.held.bytes = 0
	}
}
