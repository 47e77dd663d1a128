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

// look refuses what can be refused before anything is read.
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
				Detail: "A Content-Encoding is not taken: what is signed is the body as it comes."}
		}
	}
	if len(r.Header.Get("Content-Type")) > maxContentType {
		return &Refusal{Status: http.StatusUnsupportedMediaType, Code: grapnel.CodeUnsupported, Detail: "The Content-Type is too long."}
	}
	return nil
}

const maxContentType = 256

// receive reads the body within a limit and a time.
func (b *Bounds) receive(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, *Refusal) {
	control := http.NewResponseController(w)
	if r.ContentLength > limit {
		return nil, b.tooLarge(control, r.Body, limit)
	}
	// A socket's deadline is real time, whatever clock the room has. A connection without one is read without.
	_ = control.SetReadDeadline(time.Now().Add(within))
	reader := io.Reader(r.Body)
	if r.ContentLength < 0 { // else it ends by itself
		reader = http.MaxBytesReader(w, r.Body, limit)
	}
	body, err := readAll(reader, r.ContentLength, b.FirstRead)
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &over):
		return nil, b.tooLarge(control, r.Body, limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Refusal{Status: http.StatusRequestTimeout, Code: CodeSlow, Detail: "The body did not come in time."}
	default:
		return nil, &Refusal{Status: http.StatusBadRequest, Code: grapnel.CodeMalformed, Detail: "The body ended before it was complete."}
	}
}

func (b *Bounds) tooLarge(control *http.ResponseController, body io.Reader, limit int64) *Refusal {
	_ = control.SetReadDeadline(time.Now().Add(b.DiscardTime)) // a provider that is slower does without the answer
	_, _ = io.CopyN(io.Discard, body, b.Discard)
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Code: grapnel.CodeTooLarge,
		Detail: grapnel.Errorf(grapnel.CodeTooLarge, "The body is larger than %d bytes.", limit).Detail}
}

// readAll reads into a buffer of its own: the event keeps it. What is only announced is not believed beyond first.
func readAll(r io.Reader, announced, first int64) ([]byte, error) {
	if announced < 0 {
		return io.ReadAll(r)
	}
	if announced <= first {
		body := make([]byte, announced)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	body := make([]byte, 0, first)
	for int64(len(body)) < announced {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(int64(2*cap(body)), announced))
			copy(grown, body)
			body = grown
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil && int64(len(body)) < announced {
			return nil, err
		}
	}
	return body, nil
}
