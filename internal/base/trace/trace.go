// Package trace follows events through Grapnel: it reads and writes W3C trace contexts, and exports
// spans by OTLP over HTTP.
//
// A Tracer owns a bounded queue and one goroutine (Run), which sends batches. Record never blocks:
// a span that finds the queue full is dropped and counted. So a collector that is slow or away
// costs spans and nothing else. A nil Tracer samples nothing: there is no collector.
//
// Only ids, names, sizes and codes are in a span. Callers give it no payload, no header, no URL
// beyond its host, and no text that a stranger chose.
//
// It does not promise that a recorded span arrives: spans in the queue are lost with the process.
package trace

import (
	"encoding/hex"
	"strings"
)

// Context is one span of a trace, as the header traceparent names it.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
}

// Bits of Context.Flags.
const (
	flagSampled = 1
	flagRandom  = 2 // the trace id is random; from level 2 of W3C Trace Context
)

// The text is version, trace id, span id and flags: 00-<32 hex>-<16 hex>-<2 hex>.
const textLength = 55

// Parse reads a traceparent. Text of a later version is read as far as this version goes, as the
// standard asks; anything else that is not valid gives false, and counts as no context.
func Parse(text string) (c Context, ok bool) {
	if len(text) < textLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	if !unhex(version[:], text[:2]) || !unhex(c.Trace[:], text[3:35]) || !unhex(c.Span[:], text[36:52]) || !unhex(flags[:], text[53:55]) {
		return Context{}, false
	}
	longer := len(text) > textLength
	switch {
	case version[0] == 0xff, version[0] == 0 && longer, longer && text[textLength] != '-', !c.Valid():
		return Context{}, false
	}
	c.Flags = flags[0] & (flagSampled | flagRandom)
	return c, true
}

// unhex decodes lower-case hex, which is the only form that the standard allows.
func unhex(into []byte, text string) bool {
	_, err := hex.Decode(into, []byte(text))
	return err == nil && text == strings.ToLower(text)
}

// Valid says whether the context names a span.
func (c Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Sampled says whether the span is recorded by its maker.
func (c Context) Sampled() bool { return c.Flags&flagSampled != 0 }

// TraceID is the id of the trace as hex; empty if there is none.
func (c Context) TraceID() string {
	if !c.Valid() {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// String is the traceparent; empty if the context is not valid.
func (c Context) String() string {
	if !c.Valid() {
		return ""
	}
	b := append(make([]byte, 0, textLength), "00-"...)
	b = append(hex.AppendEncode(b, c.Trace[:]), '-')
	b = append(hex.AppendEncode(b, c.Span[:]), '-')
	return string(hex.AppendEncode(b, []byte{c.Flags}))
}
