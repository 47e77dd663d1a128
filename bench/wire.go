//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// message reads one HTTP/1.1 message with a Content-Length, with the least work that is correct for
// the messages of this benchmark. It returns the first line and the body, which are valid until the
// next read.
type message struct {
	in   *bufio.Reader
	head []byte
	body []byte
}

func newMessage(in io.Reader) *message { return &message{in: bufio.NewReaderSize(in, 16<<10)} }

var (
	contentLength    = []byte("content-length:")
	transferEncoding = []byte("transfer-encoding:")
)

func (m *message) read() error {
	length := 0
	for first := true; ; first = false {
		text, err := m.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		text = bytes.TrimRight(text, "\r\n")
		if first {
			m.head = append(m.head[:0], text...)
			continue
		}
		if len(text) == 0 {
			break
		}
		switch {
		case hasPrefixFold(text, contentLength):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(text[len(contentLength):]))); err != nil || length < 0 {
				return fmt.Errorf("a message's length is %q", text)
			}
		case hasPrefixFold(text, transferEncoding):
			return errors.New("a message is chunked; this benchmark expects a Content-Length")
		}
	}
	if cap(m.body) < length {
		m.body = make([]byte, length)
	}
	m.body = m.body[:length]
	_, err := io.ReadFull(m.in, m.body)
	return err
}

func hasPrefixFold(text, prefix []byte) bool {
	return len(text) >= len(prefix) && bytes.EqualFold(text[:len(prefix)], prefix)
}

// status is the code of a response's first line.
func (m *message) status() int {
	_, rest, _ := bytes.Cut(m.head, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	n, _ := strconv.Atoi(string(code))
	return n
}
