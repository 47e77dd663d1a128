package byhand

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// Read reads a request as it is on the wire: a line, headers, an empty line, the body. Lines may
// end without CR. The body is the rest, up to Content-Length if that is there: editors end files
// with a line break.
func Read(raw []byte) (*scheme.Webhook, error) {
	buffered := bufio.NewReader(bytes.NewReader(raw))
	lines := textproto.NewReader(buffered)
	first, err := lines.ReadLine()
	if err != nil {
		return nil, errors.New("the request is empty")
	}
	parts := strings.Fields(first)
	if len(parts) < 2 || len(parts) > 3 || !strings.HasPrefix(parts[1], "/") && !strings.Contains(parts[1], "://") {
		return nil, errors.New("the first line is not like POST /hooks HTTP/1.1")
	}
	header, err := lines.ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("the headers cannot be read: %s", strings.TrimPrefix(err.Error(), "malformed MIME header: "))
	}
	r := &scheme.Webhook{Method: parts[0], URL: parts[1], Header: http.Header(header)}
	if strings.HasPrefix(r.URL, "/") {
		r.URL = "https://" + r.Header.Get("Host") + r.URL
	}
	r.Header.Del("Host")
	var rest io.Reader = buffered
	if strings.EqualFold(r.Header.Get("Transfer-Encoding"), "chunked") {
		rest = httputil.NewChunkedReader(buffered)
	}
	if r.Body, err = io.ReadAll(rest); err != nil {
		return nil, fmt.Errorf("the body cannot be read: %w", err)
	}
	if n, err := strconv.Atoi(r.Header.Get("Content-Length")); err == nil && n >= 0 && n < len(r.Body) {
		r.Body = r.Body[:n]
	}
	return r, nil
}

// Write writes a request as it is on the wire.
func Write(r *scheme.Webhook) ([]byte, error) {
	at, err := url.Parse(r.URL)
	if err != nil {
		return nil, err
	}
	var into bytes.Buffer
	fmt.Fprintf(&into, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, at.RequestURI(), at.Host)
	header := r.Header.Clone()
	header.Set("Content-Length", strconv.Itoa(len(r.Body)))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(&into, "%s: %s\r\n", name, value)
		}
	}
	into.WriteString("\r\n")
	into.Write(r.Body)
	return into.Bytes(), nil
}
