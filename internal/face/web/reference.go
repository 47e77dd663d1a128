package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/reference"
)

// The API reference (package reference) is the one part of the dashboard that needs no session. It
// is made of the API's own document when it is first asked for.

func (w *web) addReference(mux *http.ServeMux) {
	with := func(answer func(*visit, *reference.Reference) error) http.HandlerFunc {
		return w.handler(func(v *visit) error {
			if w.alone {
				v.session = nil
			}
			all, err := w.readReference(v.Request)
			if err != nil {
				return err
			}
			return answer(v, all)
		})
	}
	mux.HandleFunc("GET /docs", with((*visit).reference))
	mux.HandleFunc("GET /docs/{page...}", with((*visit).reference))
	mux.HandleFunc("GET /docs/try/{operation}", with((*visit).try))
	mux.HandleFunc("GET /llms.txt", with(func(v *visit, all *reference.Reference) error {
		v.keep("text/plain; charset=utf-8", []byte(all.Short(v.place.base)))
		return nil
	}))
}

// readReference makes the reference, unless it was made before. A failure is not kept: the API may
// have been too busy to answer.
func (w *web) readReference(r *http.Request) (*reference.Reference, error) {
	if made := w.made.Load(); made != nil {
		return made, nil
	}
	rq, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://grapnel.invalid/openapi.json", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Local{Handler: w.API}.RoundTrip(rq)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, refused(http.StatusServiceUnavailable, "Reading the API's document failed.", "Reload the page.")
	}
	document, _ := io.ReadAll(resp.Body) // it is in memory
	made, err := reference.New(document)
	if err == nil {
		w.made.Store(made)
	}
	return made, err
}

// referenceModel is what the frame of a page of the reference needs.
type referenceModel struct {
	Menu   []reference.Heading
	Page   *reference.Page
	Text   template.HTML
	Look   string // address of the style sheet
	Script string
	Login  string // address of the sign-in; empty: there is none, or the reader is signed in
}

// reference answers with a page of the reference, or with its Markdown.
func (v *visit) reference(all *reference.Reference) error {
	name, markdown := strings.CutSuffix(v.PathValue("page"), ".md")
	if name == "" {
		name = reference.Index
	}
	p, known := all.Page(name)
	if !known {
		return refused(http.StatusNotFound, "The reference has no such page.", "Its first page is "+v.link("/docs")+".")
	}
	at := reference.At{Base: v.place.base, Server: v.place.URL(""), Try: v.session != nil}
	if markdown {
		text, err := p.Markdown(at)
		if err != nil {
			return err
		}
		v.keep("text/markdown; charset=utf-8", []byte(text))
		return nil
	}
	text, err := p.HTML(at)
	if err != nil {
		return err
	}
	s := v.bare(p.Title)
	m := referenceModel{Menu: all.Menu, Page: p, Text: text, Look: v.asset("docs.css"), Script: v.asset("docs.js")}
	if v.session == nil && !v.web.alone {
		m.Login = v.link("/login") + "?" + url.Values{"next": {v.here()}}.Encode()
	}
	s.Model = m
	page, err := v.web.drawPart("docs.html", s)
	if err != nil {
		return err
	}
	v.keep("text/html; charset=utf-8", page)
	return nil
}

// keep answers with a text that a browser may store; it asks each time whether the text is the
// same. A page for a session is not stored, as no page of the dashboard is.
func (v *visit) keep(contentType string, text []byte) {
	h := v.rw.Header()
	h.Set("Content-Type", contentType)
	if v.session == nil {
		sum := sha256.Sum256(text)
		mark := `"` + hex.EncodeToString(sum[:8]) + `"`
		h.Set("Cache-Control", "no-cache")
		h.Set("Etag", mark)
		if v.Header.Get("If-None-Match") == mark {
			v.rw.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = v.rw.Write(text) // the browser may have left
}

// try asks an operation that changes nothing, with the session's key.
func (v *visit) try(all *reference.Reference) error {
	op, known := all.Operation(v.PathValue("operation"))
	switch {
	case v.session == nil:
		http.Error(v.rw, "Sign in to try a request.", http.StatusUnauthorized)
		return nil
	case !known || !op.Runs:
		return refused(http.StatusNotFound, "This operation cannot be tried here.", "Use its curl command.")
	}
	target, complete := op.Target(v.URL.Query())
	if !complete {
		return refused(http.StatusUnprocessableEntity, "A parameter is missing.", "Fill in every required parameter.")
	}
	path, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	return v.relay(path, values)
}
