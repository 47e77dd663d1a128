package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/grapnelhq/grapnel/sign"
)

func refusal(err error) int {
	if errors.Is(err, sign.ErrNoMatch) {
		return http.StatusUnauthorized
	}
	return http.StatusBadRequest
}

// answerNow writes the answer before the work.
func answerNow(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

// event is a request that was read.
type event struct {
	source, id, key string
	body            []byte
}

// key is what duplicates are recognised by.
func key(e event, h http.Header) string {
	switch {
	case is("one-namespace"):
		return e.id
	case is("delivery-id"): // it differs for every attempt
		return e.source + "/" + rand.Text()
	case is("hashed-headers"):
		return digest(string(e.body), h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"))
	case is("top-level-hash"):
		return digest(topLevel(e.body))
	}
	return e.source + "/" + e.id
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		_, _ = io.WriteString(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// topLevel is a payload in which objects at any depth have only the members whose names occur at
// the top: what JSON.stringify makes of an array of the top's names.
func topLevel(body []byte) string {
	var top map[string]any
	if json.Unmarshal(body, &top) != nil {
		return string(body)
	}
	names := slices.Collect(maps.Keys(top))
	var only func(any) any
	only = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			kept := map[string]any{}
			for _, name := range names {
				if member, ok := v[name]; ok {
					kept[name] = only(member)
				}
			}
			return kept
		case []any:
			for n := range v {
				v[n] = only(v[n])
			}
		}
		return v
	}
	text, _ := json.Marshal(only(top))
	return string(text)
}
