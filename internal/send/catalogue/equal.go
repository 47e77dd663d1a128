package catalogue

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// canonical appends a text of a decoded value that equal values share, whatever the order of their
// members and the form of their numbers.
func canonical(out []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...)
	case bool:
		return strconv.AppendBool(out, v)
	case json.Number:
		return append(append(out, '#'), parseDecimal(string(v)).canonical()...)
	case string:
		return appendText(out, v)
	case []any:
		out = append(out, '[')
		for i := range v {
			out = append(canonical(out, v[i]), ',')
		}
		return append(out, ']')
	case map[string]any:
		out = append(out, '{')
		for _, name := range names(v) {
			out = append(canonical(append(appendText(out, name), ':'), v[name]), ',')
		}
		return append(out, '}')
	}
	panic("catalogue: not a decoded JSON value")
}

// appendText appends a text with its length, so that no other text looks the same.
func appendText(out []byte, s string) []byte {
	return append(append(strconv.AppendInt(append(out, '"'), int64(len(s)), 10), ' '), s...)
}

// names are the names of a map, sorted.
func names[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
