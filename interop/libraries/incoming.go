package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// hooks is the address given to providers. Some of them sign it.
const hooks = "https://hooks.example.com/in/src_1"

// job asks a script for a request.
type job struct {
	Make   string `json:"make"`
	Secret string `json:"secret"`
	URL    string `json:"url"`
	Now    int64  `json:"now"` // 0: the time of its creation; Paddle's library accepts five seconds only
}

// request is a request that a library created.
type request struct {
	Headers map[string]string `json:"headers"`
	Query   string            `json:"query"`
	Body    string            `json:"body"`
	Changed string            `json:"changed"` // the body with another digit
	Says    []bool            `json:"says"`    // whether the library accepts each of the two, if it can tell
}

// made are the requests of the senders, in order, signed at a unix second, or now.
func (l *lab) made(ctx context.Context, all []sender, at int64) ([]request, error) {
	requests := make([]request, len(all))
	for _, language := range []string{"Python", "Node"} {
		var jobs []job
		var places []int
		for i, p := range all {
			if p.language != language {
				continue
			}
			given := p.given
			if given == "" {
				given = p.secret
			}
			jobs, places = append(jobs, job{p.make, given, hooks, at}), append(places, i)
		}
		var answers []request
		if err := l.script(ctx, strings.ToLower(language), "incoming", jobs, &answers); err != nil {
			return nil, err
		}
		if len(answers) != len(jobs) {
			return nil, fmt.Errorf("%s made %d requests of %d", language, len(answers), len(jobs))
		}
		for i, place := range places {
			requests[place] = answers[i]
		}
	}
	return requests, nil
}

// incoming posts the requests of the providers' libraries to sources with their schemes.
func (l *lab) incoming(ctx context.Context, s *server) ([]section, error) {
	all, err := senders()
	if err != nil {
		return nil, err
	}
	requests, err := l.made(ctx, all, 0)
	if err != nil {
		return nil, err
	}
	out := section{title: "Signatures that providers make",
		about: "A request that the library signed must become an event (202; 200 for providers to which 202 is a failure) with its type and\n" +
			"key. With one digit changed it must be refused (401), and sent again it must be a duplicate (200). Libraries that only verify must\n" +
			"agree with the first two; those for Go with 100 requests: unchanged, changed, truncated and stale."}
	for i, p := range all {
		r := row{library: p.language + " `" + p.library + "`", what: p.what}
		if p.library == "" {
			r.library = "none"
		} else {
			r.version = l.version(strings.ToLower(p.language), p.library)
		}
		var fault string
		if r.result, fault, err = s.take(ctx, p, requests[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.what, err)
		}
		if fault != "" {
			r.failed, r.result = true, fault
		}
		out.rows = append(out.rows, r)
	}
	more, err := l.agreeing(ctx)
	if err != nil {
		return nil, err
	}
	out.rows = append(out.rows, more...)
	slices.SortStableFunc(out.rows, func(a, b row) int { return strings.Compare(a.what, b.what) })
	return []section{out}, nil
}

// take creates a source and sends it the request: changed, unchanged, and again.
func (s *server) take(ctx context.Context, p sender, r request) (result, fault string, err error) {
	verify := map[string]any{"scheme": p.scheme, "secret": p.secret}
	for name, value := range p.settings {
		verify[name] = value
	}
	var source struct{ ID string }
	name := strings.ToLower(p.language) + "-" + strings.ReplaceAll(p.make, "_", "-")
	if err := s.Do(ctx, http.MethodPost, "/v1/sources", nil, map[string]any{"name": name, "verify": verify, "public_url": hooks},
		&source); err != nil {
		return "", err.Error(), nil
	}
	if r.Says != nil && !slices.Equal(r.Says, []bool{true, false}) {
		return "", fmt.Sprintf("the library says %v of the request and of the changed one", r.Says), nil
	}
	status, text, err := s.post(ctx, source.ID, r, r.Changed)
	if err != nil || status != http.StatusUnauthorized {
		return "", fmt.Sprintf("changed: answered %d %s", status, text), err
	}
	status, text, err = s.post(ctx, source.ID, r, r.Body)
	if p.answer != "" {
		if err != nil || status != http.StatusOK || strings.TrimSpace(text) != p.answer {
			return "", fmt.Sprintf("answered %d %s", status, text), err
		}
		return "answered as the provider expects", "", nil
	}
	var first, second struct {
		ID        string `json:"id"`
		Duplicate bool   `json:"duplicate"`
	}
	success := http.StatusAccepted
	switch p.scheme {
	case "linear", "mailgun", "paddle", "zoom": // to them any other status than 200 is a failure
		success = http.StatusOK
	}
	if err != nil || status != success || json.Unmarshal([]byte(text), &first) != nil || first.Duplicate {
		return "", fmt.Sprintf("answered %d %s", status, text), err
	}
	event, err := s.Event(ctx, first.ID)
	if err != nil {
		return "", "", err
	}
	if event.Type != p.want.Type || event.Key != p.want.Key {
		return "", fmt.Sprintf("became an event of type %q with key %q, not %q and %q", event.Type, event.Key, p.want.Type, p.want.Key), nil
	}
	status, text, err = s.post(ctx, source.ID, r, r.Body)
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &second) != nil || !second.Duplicate || second.ID != first.ID {
		return "", fmt.Sprintf("sent again: answered %d %s", status, text), err
	}
	return strconv.Itoa(success) + " as `" + event.Type + "`", "", nil
}

func (s *server) post(ctx context.Context, source string, r request, body string) (status int, text string, err error) {
	url := s.base + "/in/" + source
	if r.Query != "" {
		url += "?" + r.Query
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	for name, value := range r.Headers {
		rq.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(rq)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(raw), err
}
