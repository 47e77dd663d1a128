package catalogue

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

// maxShown is how many bytes of values are quoted in a fault.
const maxShown = 200

// own compares the type and the value as a whole.
func (r *result) own(n *node, v any) {
	if number, is := v.(json.Number); is && !r.charge(int64(len(number))/bytesPer) {
		return
	}
	if is := typeOf(v); n.types != 0 && n.types&is == 0 {
		r.fault(fmt.Sprintf("must be %s, not %s", n.types, is))
		return
	}
	if n.values == nil || !r.walk(v) {
		return
	}
	if _, one := n.values[string(canonical(nil, v))]; !one {
		r.faultBy(func() string { return oneOf(n.shown) })
	}
}

// typeOf is the narrowest type of a decoded value.
func typeOf(v any) types {
	switch v := v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case string:
		return text
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") || parseDecimal(string(v)).integer() {
			return integer
		}
		return number
	case []any:
		return array
	}
	return object
}

func oneOf(shown []string) string {
	switch {
	case len(shown) == 0:
		return "cannot have any value: const and enum have none in common"
	case len(shown) == 1:
		return "must be " + say.Cut(shown[0], maxShown)
	}
	return "must be one of " + say.Cut(strings.Join(shown, ", "), maxShown)
}

// count compares how many parts a value has with their limits; nil: none.
func (r *result) count(is int, least, most *int, parts string) {
	if least != nil && is < *least {
		r.fault(fmt.Sprintf("must have at least %d %s, and has %d", *least, parts, is))
	}
	if most != nil && is > *most {
		r.fault(fmt.Sprintf("must have at most %d %s, and has %d", *most, parts, is))
	}
}

func (r *result) text(n *node, s string) {
	if n.minLength != nil || n.maxLength != nil {
		if !r.charge(int64(len(s)) / bytesPer) {
			return
		}
		r.count(utf8.RuneCountInString(s), n.minLength, n.maxLength, "characters")
	}
	if n.pattern != nil && !r.matches(n.pattern, s) {
		r.fault("must match the pattern " + n.pattern.String())
	}
}

func (r *result) number(n *node, s string) {
	if n.minimum == nil && n.maximum == nil && n.above == nil && n.below == nil && n.multipleOf == nil || !r.charge(int64(len(s))/bytesPer) {
		return
	}
	d := parseDecimal(s)
	for _, bound := range []struct {
		is      *decimal
		wrong   func(by int) bool
		exceeds string
	}{
		{n.minimum, func(by int) bool { return by < 0 }, "must be at least "},
		{n.above, func(by int) bool { return by <= 0 }, "must be greater than "},
		{n.maximum, func(by int) bool { return by > 0 }, "must be at most "},
		{n.below, func(by int) bool { return by >= 0 }, "must be less than "},
	} {
		if bound.is != nil && bound.wrong(d.compare(*bound.is)) {
			r.faultBy(func() string { return bound.exceeds + bound.is.String() })
		}
	}
	if n.multipleOf != nil {
		// Reading a number takes the square of its digits at most.
		if digits := int64(len(d.digits)); r.charge(10+digits*digits/256) && !d.multiple(*n.multipleOf) {
			r.fault("must be a multiple of " + n.multipleOf.String())
		}
	}
}
