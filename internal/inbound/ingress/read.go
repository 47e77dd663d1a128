package ingress

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// look refuses a request by its header, before the body is read.
func (b *Bounds) look(r *http.Request) *Refusal {
	lines, size := 0, 0
	for name, values := range r.Header {
		for _, value := range values {
			lines++
			size += len(name) + len(value)
		}
	}
	if lines > b.HeaderLines || int64(size) > b.HeaderBytes {
		return &Refusal{Status: http.StatusRequestHeaderFieldsTooLarge, Code: CodeHeaders, Detail: "The request's header is too large."}
	}
	for _, coding := range r.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return &Refusal{Status: http.StatusUnsupportedMediaType, Code: grapnel.CodeUnsupported,
				Detail: "A Content-Encoding is not accepted: the signature covers the body as it comes."}
		}
	}
	if len(r.Header.Get("Content-Type")) > maxContentType {
		return &Refusal{Status: http.StatusUnsupportedMediaType, Code: grapnel.CodeUnsupported, Detail: "The Content-Type is too long."}
	}
	return nil
}

const maxContentType = 256

// receive reads the body within a limit, and within the time that its slot has.
func (b *Bounds) receive(w http.ResponseWriter, r *http.Request, limit int64, held *slot) ([]byte, *Refusal) {
	if r.ContentLength > limit {
		return nil, b.tooLarge(held, r.Body, limit)
	}
	reader := io.Reader(r.Body)
	if r.ContentLength < 0 { // else it ends by itself
		reader = http.MaxBytesReader(w, r.Body, limit)
	}
	body, err := readAll(reader, r.ContentLength, b.FirstRead, held)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, b.tooLarge(held, r.Body, limit)
	// whatever other error: ending its read is how a request is made to give way
	case errors.Is(err, errNoRoom) || !held.read():
		return nil, new(overloaded(b.WaitBusy))
	case err == nil:
		// A deadline would end net/http's watch on the connection, and so the request's context.
		held.until(time.Time{})
		return body, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Refusal{Status: http.StatusRequestTimeout, Code: CodeSlow, Detail: "The body did not come in time."}
	default:
		return nil, &Refusal{Status: http.StatusBadRequest, Code: grapnel.CodeMalformed, Detail: "The body ended before it was complete."}
	}
}

func overloaded(wait time.Duration) Refusal {
	return Refusal{Status: http.StatusServiceUnavailable, Code: grapnel.CodeOverloaded,
		Detail: "Too many requests are on their way.", RetryAfter: wait}
}

func (b *Bounds) tooLarge(held *slot, body io.Reader, limit int64) *Refusal {
	held.discarding() // a provider that is slower does without the answer
	_, _ = io.CopyN(io.Discard, body, b.Discard)
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Code: grapnel.CodeTooLarge,
		Detail: grapnel.Errorf(grapnel.CodeTooLarge, "The body is larger than %d bytes.", limit).Detail}
}

var errNoRoom = errors.New("no memory is left for the body")

// readAll reads into a buffer of its own, which becomes the event's. An announced length (-1: none)
// gets no memory beyond first.
func readAll(r io.Reader, announced, first int64, held *slot) ([]byte, error) {
	if announced >= 0 {
		first = min(first, announced)
	}
	body := make([]byte, 0, first)
	for announced < 0 || int64(len(body)) < announced {
		if len(body) == cap(body) {
			size := int64(2 * cap(body))
			if announced >= 0 {
				size = min(size, announced)
			}
			grown := make([]byte, len(body), size)
			copy(grown, body)
			body = grown
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if n > 0 && !held.arrived(n, announced < 0 || int64(len(body)) < announced) {
			return nil, errNoRoom
		}
		switch {
		case err == io.EOF && announced < 0:
			return body, nil
		case err != nil && int64(len(body)) != announced:
			return nil, err
		}
	}
	return body, nil
}
