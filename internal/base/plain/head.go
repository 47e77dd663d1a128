package plain

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

// head is a plain request without its body.
type head struct {
	path   string
	host   string
	header http.Header // as net/http has it: without Host
	length int64       // of the body, at least 1
	values []string    // in the header
}

// read reads the plain head at the beginning of b, in place of the head that was read before; size
// is its length. It may refuse any head that it is not sure of: net/http reads the same bytes then.
func (h *head) read(b []byte, plain func(path string) bool, most int) (size int, ok bool) {
	const method, version = "POST ", " HTTP/1.1\r\n"
	if !bytes.HasPrefix(b, []byte(method)) {
		return 0, false
	}
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, false
	}
	size = end + len("\r\n\r\n")
	text := string(b[len(method) : end+len("\r\n")])
	space := strings.IndexByte(text, ' ')
	if space < 0 || !strings.HasPrefix(text[space:], version) || !only(text[:space], "/-_") || !plain(text[:space]) {
		return 0, false
	}
	path := text[:space]
	lines := text[space+len(version):]
	n := strings.Count(lines, "\n")
	if n > most {
		return 0, false
	}
	h.clear(n)
	h.path = path
	for lines != "" {
		line := lines[:strings.IndexByte(lines, '\n')+1]
		lines = lines[len(line):]
		name, value, ok := field(line)
		if !ok {
			return 0, false
		}
		switch name {
		case "Host":
			if h.host != "" || value == "" || !only(value, "-.:[]_") {
				return 0, false
			}
			h.host = value
			continue
		case "Content-Length":
			// A number above 0 without sign and leading zero: no parser reads it in another way.
			length, err := strconv.ParseInt(value, 10, 64)
			if err != nil || value[0] < '1' || length > 999_999_999 || h.length != 0 {
				return 0, false
			}
			h.length = length
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return 0, false
			}
		case "Transfer-Encoding", "Trailer", "Expect", "Upgrade", "Te", "Pragma", "Keep-Alive", "Proxy-Connection":
			return 0, false // they change the body, the connection or another header
		}
		if had := h.header[name]; had != nil {
			h.header[name] = append(had[:len(had):len(had)], value)
			continue
		}
		h.values = append(h.values, value)
		h.header[name] = h.values[len(h.values)-1 : len(h.values) : len(h.values)]
	}
	return size, h.host != "" && h.length > 0
}

// clear makes room for n lines.
func (h *head) clear(n int) {
	if h.header == nil {
		h.header = make(http.Header, n)
	}
	clear(h.header)
	if cap(h.values) < n {
		h.values = make([]string, 0, n)
	}
	h.path, h.host, h.length, h.values = "", "", 0, h.values[:0]
}

// field reads a header line, which ends with a line feed.
func field(line string) (name, value string, ok bool) {
	colon := strings.IndexByte(line, ':')
	if colon <= 0 || !strings.HasSuffix(line, "\r\n") {
		return "", "", false
	}
	name, value = line[:colon], line[colon+1:len(line)-len("\r\n")]
	if !only(name, "-") {
		return "", "", false
	}
	for i := range len(value) {
		if c := value[i]; (c < ' ' && c != '\t') || c >= 0x7f {
			return "", "", false
		}
	}
	return http.CanonicalHeaderKey(name), strings.Trim(value, " \t"), true
}

// only says that a text has no bytes but letters, digits, and those of others.
func only(text, others string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}
