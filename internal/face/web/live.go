package web

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A live page is an EventSource at the page's own address. Every LiveEvery its connection asks the
// page's reader for the present state. Tabs that look at the same page in the same session share
// one reader, which asks the API once for all of them. After a look it rests LiveRest times the
// look's duration, and as often as there are readers. So all live pages together take at most one
// in LiveRest of a processor's time, however slow their queries are: of many pages, each is looked
// at less often. A reader draws the page only if the API's answers have changed, and after
// LiveRedraw, so that pictures move with the time.

func newReaders(stand string) *readers {
	return &readers{by: map[string]*reader{}, tenants: map[string]int{}, stand: stand}
}

// watch joins the reader of a page; false: there are too many live pages.
func (rs *readers) watch(name, tenant string, b *Bounds) (*reader, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all >= b.LiveAll || rs.tenants[tenant] >= b.LiveTenant {
		return nil, false
	}
	rs.all++
	rs.tenants[tenant]++
	r := rs.by[name]
	if r == nil {
		r = &reader{}
		rs.by[name] = r
	}
	r.watchers++
	return r, true
}

func (rs *readers) leave(name, tenant string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.all--
	if rs.tenants[tenant]--; rs.tenants[tenant] == 0 {
		delete(rs.tenants, tenant)
	}
	if r := rs.by[name]; r != nil {
		if r.watchers--; r.watchers == 0 {
			delete(rs.by, name)
		}
	}
}

// look returns the page as it is, and its version. v is the visit of the watcher that asks; it
// stands for all of them, who have the same session and the same address of the page.
func (r *reader) look(v *visit) (main []byte, version int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := v.web.Clock()
	if r.version > 0 && began.Before(r.next) {
		return r.main, r.version, nil
	}
	defer func() {
		took := v.web.Clock().Sub(began)
		rest := took * time.Duration(v.web.Bounds.LiveRest*v.web.live.count())
		r.next = began.Add(max(v.web.Bounds.LiveEvery-v.web.Bounds.LiveEvery/10, took+rest))
	}()
	v.now = began
	v.answers.listen()
	model, err := v.model()
	if err != nil {
		return nil, 0, err
	}
	if sum := v.answers.sum(); sum != r.sum || r.version == 0 || began.Sub(r.drawn) >= v.web.Bounds.LiveRedraw {
		s := v.sheet(model, "")
		s.Token = v.web.live.stand
		text, err := v.web.drawPart(v.page.template, s)
		if err != nil {
			return nil, 0, err
		}
		r.sum, r.drawn, r.main = sum, began, text
		r.version++
	}
	return r.main, r.version, nil
}

// stream writes the page's main part whenever it has changed, until the browser leaves, the session
// or the server ends, or the API refuses.
func (w *web) stream(v *visit) {
	name := v.readerName()
	r, ok := w.live.watch(name, v.session.Tenant, &w.Bounds)
	if !ok {
		v.rw.Header().Set("Retry-After", "15")
		http.Error(v.rw, "Too many live pages; this page asks again every 15 s instead.", http.StatusServiceUnavailable)
		return
	}
	defer w.live.leave(name, v.session.Tenant)
	h := v.rw.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies pass each event on at once
	v.rw.WriteHeader(http.StatusOK)
	connection := http.NewResponseController(v.rw)
	if err := connection.SetReadDeadline(time.Time{}); err != nil { // or the server's own would end the stream
		return
	}
	token := w.seals.token(v.session.form())
	tick := time.NewTicker(w.Bounds.LiveEvery)
	defer tick.Stop()
	told := ""
	for sent := -1; ; {
		main, version, err := r.look(v)
		switch {
		case err != nil && v.Context().Err() == nil:
			_ = v.event(connection, "trouble", []byte("reload"))
			return
		case err != nil || w.Stopping() || !w.Clock().Before(v.session.Ends):
			return
		case version != sent:
			if err := v.event(connection, "main", bytes.ReplaceAll(main, []byte(w.live.stand), []byte(token))); err != nil {
				return
			}
			sent = version
		}
		if open := v.open(); open != told {
			if err := v.event(connection, "open", []byte(open)); err != nil {
				return
			}
			told = open
		}
		select {
		case <-tick.C:
		case <-v.Context().Done():
			return
		}
	}
}

// event writes one event and waits until the browser has taken it.
func (v *visit) event(connection *http.ResponseController, name string, data []byte) error {
	if err := connection.SetWriteDeadline(time.Now().Add(v.web.Bounds.LiveSlow)); err != nil {
		return err
	}
	text := strings.NewReplacer("\r", "", "\n", "\ndata: ").Replace(string(data))
	if _, err := fmt.Fprintf(v.rw, "event: %s\ndata: %s\n\n", name, text); err != nil {
		return err
	}
	return connection.Flush()
}

// readerName is of the reader that a visit can share: the same session, at the same address.
func (v *visit) readerName() string {
	sum := sha256.Sum256([]byte(v.session.Pass))
	return fmt.Sprintf("%x %s %s %s %s", sum, v.place.URL(""), strings.Join(texts(v.session.Scopes), ","), v.answers.tenant, v.here())
}
