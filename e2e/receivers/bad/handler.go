package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"

	"github.com/grapnelhq/grapnel/sign"
)

// hook is one request: read, verify, make the key, process under the key, answer.
func (r *receiver) hook(w http.ResponseWriter, q *http.Request, source string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, 1<<20))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e := event{source: source, id: q.Header.Get("webhook-id"), body: body}
	e.key = key(e, q.Header)
	if is("parsed-outside") && json.Unmarshal(body, &map[string]any{}) != nil {
		os.Exit(1) // an exception that nothing catches
	}
	if _, err := r.verify[source].Verify(q.Header, body); err != nil && !is("unverified") {
		if is("claimed-before-verified") { // it was claimed before this line
			_, _ = r.mark(q.Context(), e)
		}
		w.WriteHeader(refusal(err))
		return
	}
	switch {
	case is("never-run"): // a coroutine that nothing awaits
		w.WriteHeader(http.StatusOK)
	case is("answered-first"):
		answerNow(w)
		_, _ = r.process(context.WithoutCancel(q.Context()), e)
	case is("answered-then-queued"):
		answerNow(w)
		travel(context.WithoutCancel(q.Context()))
		_, _ = r.db.Exec(context.WithoutCancel(q.Context()), `insert into queue(source, event, body) values($1, $2, $3)`, source, e.id, body)
	default:
		status, err := r.process(q.Context(), e)
		switch {
		case err == nil:
		case is("hangs"): // an exception that the framework does not pass on
			<-q.Context().Done()
		case errors.Is(err, errPermanent) && is("trusts-retry-count"):
			if n, _ := strconv.Atoi(q.Header.Get("x-retry-count")); n < 5 {
				status = http.StatusInternalServerError
			}
		}
		w.WriteHeader(status)
	}
}

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
