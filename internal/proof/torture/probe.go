package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Probe counts effects.
type Probe interface {
	// Read returns the effects of an event, or with a key in place of the id those of the key.
	Read(ctx context.Context, event, key string) (Reading, error)
	// Keys reports whether it can read by key.
	Keys() bool
}

// HTTPProbe is the URL of a receiver's page that answers a number, or a JSON object with effects,
// state, version and amount. {event} or {id}, and {key}, stand in it for the event and the key. A
// URL without them gets ?event= or ?key= added.
type HTTPProbe struct {
	URL    string
	Client *http.Client // nil: http.DefaultClient
}

// Keys implements Probe.
func (p HTTPProbe) Keys() bool {
	return !strings.Contains(p.URL, "{") || strings.Contains(p.URL, "{key}")
}

// Read implements Probe.
func (p HTTPProbe) Read(ctx context.Context, event, key string) (Reading, error) {
	text := p.URL
	switch {
	case strings.Contains(text, "{"):
		text = fill(text, "event", event, "id", event, "key", key)
	case key != "":
		text = added(text, "key", key)
	default:
		text = added(text, "event", event)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		return Reading{}, err
	}
	client := p.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return Reading{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return Reading{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return Reading{}, fmt.Errorf("the probe answered %d", resp.StatusCode)
	}
	return ParseReading(body)
}

// ParseReading reads a probe's answer: a number, or an object with effects.
func ParseReading(text []byte) (Reading, error) {
	text = bytes.TrimSpace(text)
	if n, err := strconv.Atoi(string(text)); err == nil {
		return Reading{Effects: n}, nil
	}
	var doc struct {
		Effects *int            `json:"effects"`
		State   json.RawMessage `json:"state"`
		Version json.RawMessage `json:"version"`
		Amount  json.RawMessage `json:"amount"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Effects == nil {
		return Reading{}, errors.New(`the probe's answer is no number and no JSON object with "effects"`)
	}
	return Reading{Effects: *doc.Effects, State: lexeme(doc.State), Version: lexeme(doc.Version), Amount: lexeme(doc.Amount)}, nil
}

// lexeme is a JSON string's text, or a number as it was written; empty for null.
func lexeme(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil || string(raw) == "null" {
		return text
	}
	return string(raw)
}

// fill replaces {name} by a value, escaped for a URL, for each pair of name and value.
func fill(template string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		template = strings.ReplaceAll(template, "{"+pairs[i]+"}", url.QueryEscape(pairs[i+1]))
	}
	return template
}

// added is a URL with parameters added, those with an empty value left out.
func added(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		mark := "?"
		if strings.Contains(text, "?") {
			mark = "&"
		}
		text += mark + pairs[i] + "=" + url.QueryEscape(pairs[i+1])
	}
	return text
}
