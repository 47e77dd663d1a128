package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const recordedDir = "internal/inbound/ingress/testdata/recorded"

// recordedAt is the unix second at which the recorded requests were signed.
const recordedAt = 1_790_000_000

// vector is a recorded request in the form that the tests of internal/inbound/ingress read.
type vector struct {
	Name          string            `json:"name"`
	Origin        string            `json:"origin"`
	Now           int64             `json:"now"`
	URL           string            `json:"url"`
	Headers       map[string]string `json:"headers"`
	Body          string            `json:"body"`
	Verify        map[string]any    `json:"verify"`
	Want          want              `json:"want"`
	BodyUnsigned  bool              `json:"body_unsigned,omitempty"`
	StampedInBody bool              `json:"stamped_in_body,omitempty"`
}

// recorded says whether the request is the same in each run. Greetings are no events, so the tests
// of vectors cannot use them.
func (p sender) recorded() bool { return !p.unrecorded && p.answer == "" && p.library != "" }

func (p sender) name() string {
	return p.library + " for " + p.language + ": " + strings.ReplaceAll(p.make, "_", " ")
}

// record writes the requests of all libraries with reproducible signatures, one file per scheme.
func (l *lab) record(ctx context.Context) error {
	all, err := senders()
	if err != nil {
		return err
	}
	requests, err := l.made(ctx, all, recordedAt)
	if err != nil {
		return err
	}
	byScheme := map[string][]vector{}
	for i, p := range all {
		if !p.recorded() {
			continue
		}
		verify := map[string]any{"secrets": []string{p.secret}}
		for name, value := range p.settings {
			verify[name] = value
		}
		r := requests[i]
		url := hooks
		if r.Query != "" {
			url += "?" + r.Query
		}
		byScheme[p.scheme] = append(byScheme[p.scheme], vector{
			Name: p.name(), Now: recordedAt + 2, URL: url,
			Origin:  "made by " + p.library + " " + l.version(strings.ToLower(p.language), p.library) + " for " + p.language,
			Headers: r.Headers, Body: r.Body, Verify: verify, Want: p.want, BodyUnsigned: p.bodyUnsigned, StampedInBody: p.stampedInBody,
		})
	}
	dir := filepath.Join(l.root, recordedDir)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil { //nolint:gosec // test data
		return err
	}
	for _, scheme := range slices.Sorted(maps.Keys(byScheme)) {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{"scheme": scheme, "vectors": byScheme[scheme]}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, scheme+".json"), text.Bytes(), 0o644); err != nil { //nolint:gosec // test data
			return err
		}
	}
	return nil
}
