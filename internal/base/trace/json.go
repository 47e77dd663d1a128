package trace

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// The documents of OTLP in JSON: protobuf's JSON mapping, in which 64-bit numbers are strings, but
// with ids as hex. Fields without a value are left out.
type (
	exportJSON struct {
		ResourceSpans []resourceSpansJSON `json:"resourceSpans"`
	}
	resourceSpansJSON struct {
		Resource   resourceJSON     `json:"resource"`
		ScopeSpans []scopeSpansJSON `json:"scopeSpans"`
	}
	resourceJSON struct {
		Attributes []attributeJSON `json:"attributes"`
	}
	scopeSpansJSON struct {
		Scope scopeJSON  `json:"scope"`
		Spans []spanJSON `json:"spans"`
	}
	scopeJSON struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	spanJSON struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		ParentSpanID string          `json:"parentSpanId,omitempty"`
		Flags        byte            `json:"flags"`
		Name         string          `json:"name"`
		Kind         Kind            `json:"kind"`
		Start        string          `json:"startTimeUnixNano"`
		End          string          `json:"endTimeUnixNano"`
		Attributes   []attributeJSON `json:"attributes,omitempty"`
		Links        []linkJSON      `json:"links,omitempty"`
		Status       *statusJSON     `json:"status,omitempty"`
	}
	linkJSON struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
		Flags   byte   `json:"flags"`
	}
	statusJSON struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
	attributeJSON struct {
		Key   string    `json:"key"`
		Value valueJSON `json:"value"`
	}
	valueJSON struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

// encodeJSON is the body of an export as JSON.
func encodeJSON(r *resource, spans []Span) ([]byte, error) {
	list := make([]spanJSON, len(spans))
	for i := range spans {
		s := &spans[i]
		list[i] = spanJSON{TraceID: hex.EncodeToString(s.Trace[:]), SpanID: hex.EncodeToString(s.Context.Span[:]), Flags: s.Flags,
			Name: s.Name, Kind: s.Kind, Start: nanosText(s.Start), End: nanosText(s.End), Attributes: attributesJSON(s.Attributes)}
		if s.Parent != [8]byte{} {
			list[i].ParentSpanID = hex.EncodeToString(s.Parent[:])
		}
		if s.Link.Valid() {
			list[i].Links = []linkJSON{{hex.EncodeToString(s.Link.Trace[:]), hex.EncodeToString(s.Link.Span[:]), s.Link.Flags}}
		}
		if s.Failed != "" {
			list[i].Status = &statusJSON{s.Failed, statusError}
		}
	}
	return json.Marshal(exportJSON{[]resourceSpansJSON{{resourceJSON{attributesJSON(r.attributes)},
		[]scopeSpansJSON{{scopeJSON{scope, r.version}, list}}}}})
}

func attributesJSON(all []Attribute) []attributeJSON {
	list := make([]attributeJSON, len(all))
	for i := range all {
		a := &all[i]
		list[i].Key = a.Key
		if a.numeric {
			list[i].Value.Int = new(strconv.FormatInt(a.number, 10))
		} else {
			list[i].Value.String = &a.text
		}
	}
	return list
}

func nanosText(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
