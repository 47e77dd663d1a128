package egress

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	maxReadBody       = 64 << 10
	maxKeptBody       = 16 << 10
	maxResponseHeader = 32 << 10
	maxKeptHeaders    = 50
	maxKeptValue      = 1 << 10
)

// readBody reads an answer's body to its end, or up to the limit. It returns the part to store, and
// whether the body ended. A longer body is no error: the part that matters was read. The body is
// not closed, because closing would read the rest.
func (s *Sender) readBody(body io.Reader) (kept []byte, ended bool, err error) {
	if body == http.NoBody {
		return nil, true, nil
	}
	buffer := s.buffers.Get().(*[maxKeptBody]byte)
	defer s.buffers.Put(buffer)
	n, err := fill(body, buffer[:])
	kept = bytes.Clone(buffer[:n])
	for total := n; err == nil && total < maxReadBody; total += n {
		n, err = fill(body, buffer[:])
	}
	if errors.Is(err, io.EOF) {
		return kept, true, nil
	}
	return kept, false, err
}

// fill reads until the buffer is full or the body has ended. The end is io.EOF even if bytes came
// with it. Unlike io.ReadFull it leaves io.ErrUnexpectedEOF to a body that broke off.
func fill(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = r.Read(buffer[n:])
		n += m
	}
	return n, err
}

// keptHeaders returns an answer's headers for display: at most 50, and none that could be a
// credential.
func keptHeaders(h http.Header) map[string]string {
	kept := make(map[string]string, min(len(h), maxKeptHeaders))
	for _, name := range slices.Sorted(maps.Keys(h)) { // the same ones every time
		if len(kept) == maxKeptHeaders {
			break
		}
		keep(kept, name, strings.Join(h[name], ", "))
	}
	return kept
}

func keep(kept map[string]string, name, value string) {
	if secretive(name) {
		return
	}
	if len(value) > maxKeptValue {
		value = value[:maxKeptValue]
	}
	kept[clean(name)] = clean(value)
}

func secretive(name string) bool {
	switch name {
	case "Content-Type", "Content-Length", "Date", "Server", "Connection": // nearly all of them
		return false
	}
	name = strings.ToLower(name)
	parts := []string{"cookie", "authoriz", "authentic", "token", "secret", "password", "api-key", "apikey", "session"}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}
