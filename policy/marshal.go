package policy

import "encoding/json"

// MarshalJSON writes the form that Parse reads, every field included. A missing limit is null.
func (p Policy) MarshalJSON() ([]byte, error) {
	type plain Policy // without this method
	return json.Marshal(struct {
		plain
		Limits      []Limit   `json:"limits"`
		MaxAttempts *int      `json:"max_attempts"`
		MaxAge      *Duration `json:"max_age"`
	}{plain(p), append([]Limit{}, p.Limits...), unlessZero(p.MaxAttempts), unlessZero(p.MaxAge)})
}

// UnmarshalJSON reads what MarshalJSON has written, every field included, so its base is not looked
// up. A field that is not written, because a later version added it, is that of standard.
func (p *Policy) UnmarshalJSON(raw []byte) error {
	asWritten := func(preset string) (Policy, bool) {
		p := standard()
		p.Preset = preset
		return p, true
	}
	parsed, err := parse(raw, reader{named: asWritten, usual: "standard"})
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
