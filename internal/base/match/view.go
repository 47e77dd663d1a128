package match

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/grapnelhq/grapnel"
)

// view is an event as a filter sees it. All filters that see one event share a view and with it the
// decoded data. It belongs to one goroutine.
type view struct {
	event *grapnel.Event
	document
	cost int64             // of the filters that have run
	said map[*Filter]error // result of each filter; nil: the event passes
}

// decode reads the data at the first use.
func (v *view) decode() (any, error) { return v.of(v.event.Data, values) }

// document is JSON as CEL's values, decoded at the first use.
type document struct {
	decoded bool
	value   any
	err     error
}

func (d *document) of(data []byte, number func(json.Number) any) (any, error) {
	if !d.decoded {
		d.decoded = true
		d.value, d.err = decode(data, number)
	}
	return d.value, d.err
}

var errNotJSON = errors.New("the event's data is not JSON")

// decode converts JSON to CEL's values, and its numbers by number.
func decode(data []byte, number func(json.Number) any) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errNotJSON
	}
	return numbers(value, number), nil
}

func numbers(value any, number func(json.Number) any) any {
	switch v := value.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			v[i] = numbers(v[i], number)
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k], number)
		}
	}
	return value
}

// values are numbers that compare. Whole ones stay whole: as floats, two ids beyond 2^53 that
// differ in their last digit would be equal.
func values(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(string(n), 10, 64); err == nil {
		return u
	}
	f, _ := n.Float64() // beyond the range of floats: ±Inf, which compares as it should
	return f
}

// digits are numbers that name something: one that a whole number does not write in the same way
// stays the text it came as.
func digits(n json.Number) any {
	if i, err := n.Int64(); err == nil && strconv.FormatInt(i, 10) == string(n) {
		return i
	}
	return string(n)
}
