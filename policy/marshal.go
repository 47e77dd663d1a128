package policy

import "encoding/json"

// MarshalJSON writes the form that Parse reads, every field included. A missing limit is null.
func (p Policy) MarshalJSON() ([]byte, error) {
	type plain Policy // without this method
	return json.Marshal(struct {
		plain
		MaxAttempts *int      `json:"max_attempts"`
		MaxAge      *Duration `json:"max_age"`
	}{plain(p), unlessZero(p.MaxAttempts), unlessZero(p.MaxAge)})
}

// UnmarshalJSON is Parse.
func (p *Policy) UnmarshalJSON(raw []byte) error {
	parsed, err := Parse(raw)
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

// MarshalJSON writes a number or {"add":…}.
func (j Jitter) MarshalJSON() ([]byte, error) {
	if j.Add != 0 {
		return json.Marshal(map[string]Duration{"add": j.Add})
	}
	return json.Marshal(j.Fraction)
}

// MarshalJSON writes false for no breaker.
func (b Breaker) MarshalJSON() ([]byte, error) {
	type plain Breaker
	if b.Off {
		return []byte("false"), nil
	}
	return json.Marshal(plain(b))
}

func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
