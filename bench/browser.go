//go:build linux

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// browser asks for pages as one does: with cookies, and signed in by the form.
type browser struct {
	base   string
	http   *http.Client
	assets map[string]bool // that pages have named
}

func newBrowser(addr string) (*browser, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{base: "http://" + addr, assets: map[string]bool{},
		http: &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 4}, CheckRedirect: stay}}, nil
}

var (
	tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)
	nextLink   = regexp.MustCompile(`href="([^"]+)" rel="next"`)
	assetLink  = regexp.MustCompile(`(?:href|src)="([^"]*/assets/[^"]+)"`)
)

// seen is an answer to a browser.
type seen struct {
	took time.Duration
	body []byte
}

// next is the address of a list's next page; empty: it has none.
func (s *seen) next() string {
	if found := nextLink.FindSubmatch(s.body); found != nil {
		return html.UnescapeString(string(found[1]))
	}
	return ""
}

// page asks for a page and reads it to its end.
func (b *browser) page(ctx context.Context, path string) (*seen, error) {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	if err != nil {
		return nil, err
	}
	s := &seen{}
	began := time.Now()
	resp, err := b.http.Do(rq)
	if err != nil {
		return nil, err
	}
	s.body, err = io.ReadAll(resp.Body)
	s.took = time.Since(began)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s was answered %s: %.300s", path, resp.Status, s.body)
	}
	for _, found := range assetLink.FindAllSubmatch(s.body, -1) {
		b.assets[html.UnescapeString(string(found[1]))] = true
	}
	return s, nil
}

// signIn sends the form with the key.
func (b *browser) signIn(ctx context.Context) error {
	form, err := b.page(ctx, "/login")
	if err != nil {
		return err
	}
	token := tokenField.FindSubmatch(form.body)
	if token == nil {
		return errors.New("the sign-in form has no token")
	}
	fields := url.Values{"token": {string(token[1])}, "key": {bearer}}
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/login", strings.NewReader(fields.Encode()))
	if err != nil {
		return err
	}
	rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rq.Header.Set("Origin", b.base)
	resp, err := b.http.Do(rq)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusSeeOther {
		return errors.Join(err, fmt.Errorf("signing in was answered %s", resp.Status))
	}
	return nil
}

// compressed is how many bytes all assets have that pages have named, each compressed by gzip.
func (b *browser) compressed(ctx context.Context) (total int, err error) {
	for path := range b.assets {
		s, err := b.page(ctx, path)
		if err != nil {
			return 0, err
		}
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		if _, err := z.Write(s.body); err != nil {
			return 0, err
		}
		if err := z.Close(); err != nil {
			return 0, err
		}
		total += small.Len()
	}
	return total, nil
}

// watch keeps a page live, as an EventSource does, until the context ends. state gets
// the bytes of each state that the server sends.
func (b *browser) watch(ctx context.Context, path string, state func(bytes int)) error {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	if err != nil {
		return err
	}
	rq.Header.Set("Accept", "text/event-stream")
	resp, err := b.http.Do(rq)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s live was answered %s", path, resp.Status)
	}
	size := 0
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return err
		case len(line) == 1:
			state(size)
			size = 0
			continue
		case bytes.HasPrefix(line, []byte("event: trouble")):
			return fmt.Errorf("%s live: the server has trouble", path)
		}
		size += len(line)
	}
}
