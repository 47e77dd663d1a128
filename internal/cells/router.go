package cells

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Header names a cell: in a request, the one that is to answer; in an answer of status 421, the one where the tenant is.
const Header = "Grapnel-Cell"

// sourcePath is before the id of a source, where webhooks come in.
const sourcePath = "/in/"

// Routing says what stands behind a router.
type Routing struct {
	Faces   []http.Handler                   // of the cells, in their order
	Token   func(http.Header) (string, bool) // finds the API key of a request, as faces do
	MaxBody int                              // bytes of a body that faces read
}

// Route makes the handler that passes each request to the face of the cell that it is for. What is right and what is not is for faces to say: a
// request that belongs nowhere is home's to refuse.
//
// A webhook goes to the cell that has its source, a request with a tenant's key to the cell that has the tenant. Keys that are bound to no tenant
// open all cells. With one of them the header says which cell is to answer, or the endpoint or source that is asked about; else home is first. When the answer is that the
// tenant is elsewhere, the cell named in it is asked, and when it is that there is no such thing, the others are. Nothing has happened then, so
// the request can be made again.
func (r *Room) Route(o Routing) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		at, free := r.place(rq, o.Token)
		if !free {
			o.Faces[at].ServeHTTP(w, rq)
			return
		}
		r.seek(&o, w, rq)
	})
}

// place is the cell that a request is for; free: it may be any.
func (r *Room) place(rq *http.Request, token func(http.Header) (string, bool)) (at int, free bool) {
	if source, comes := strings.CutPrefix(rq.URL.Path, sourcePath); comes {
		return r.source(source), false
	}
	text, ok := token(rq.Header)
	if !ok {
		return 0, false
	}
	hash := sha256.Sum256([]byte(text))
	if key, known := r.cells[0].Engine.KeyByHash(hash); known && key.Tenant == "" {
		if named := r.index(rq.Header.Get(Header)); named >= 0 {
			return named, false
		}
		if rq.Header.Get(Header) != "" {
			return 0, false
		}
		at = r.subject(rq)
		return at, at == 0
	}
	return r.holder(func(e Engine) (string, bool) {
		key, known := e.KeyByHash(hash)
		return key.Tenant, known && key.Tenant != ""
	}), false
}

// subject is the cell that has the endpoint or the source that a request is restricted to, as lists are. They would be answered elsewhere with
// nothing, or with what is left of a tenant that has gone.
func (r *Room) subject(rq *http.Request) int {
	for part := range strings.SplitSeq(rq.URL.Path, "/") {
		if at := r.endpoint(part); at > 0 {
			return at
		}
	}
	if rq.URL.RawQuery == "" {
		return 0
	}
	query := rq.URL.Query()
	if id := query.Get("endpoint"); id != "" {
		return r.endpoint(id)
	}
	if id := query.Get("source"); id != "" {
		return r.source(id)
	}
	return 0
}

// endpoint is the cell that has an endpoint or queue.
func (r *Room) endpoint(id string) int {
	return r.holder(func(e Engine) (string, bool) {
		ep, known := e.Endpoint(store.Everyone(), id)
		return ep.Tenant, known
	})
}

// source is the cell that has a source.
func (r *Room) source(id string) int {
	return r.holder(func(e Engine) (string, bool) {
		s, known := e.Source(store.Everyone(), id)
		return s.Tenant, known
	})
}

// holder is the cell that has a tenant's thing; home if none does. While a tenant moves two cells know its things, and the one that has the tenant
// counts.
func (r *Room) holder(has func(Engine) (tenant string, known bool)) int {
	at, most := 0, 0
	for i, c := range r.cells {
		tenant, known := has(c.Engine)
		if !known {
			continue
		}
		says := weight[grapnel.TenancyHere]
		if t, special := c.Engine.Tenancy(tenant); special {
			says = weight[t.State]
		}
		if says > most {
			at, most = i, says
		}
	}
	return at
}

// seek asks home, and then one cell after the other. A tenant may have moved more than once, and each cell knows only where it has gone from there.
func (r *Room) seek(o *Routing, w http.ResponseWriter, rq *http.Request) {
	body := &kept{from: rq.Body, most: o.MaxBody}
	first := r.try(o.Faces[0], w, rq, body)
	for more := len(o.Faces); first.sentOn() && !body.lost && more > 0; more-- {
		first = r.try(o.Faces[first.elsewhere], w, rq, body)
	}
	if !first.held || first.sentOn() || body.lost {
		first.release()
		return
	}
	for _, face := range o.Faces[1:] {
		if !r.try(face, w, rq, body).held {
			return
		}
	}
	first.release()
}

// try has a face answer, and keeps the answer back if another cell may know more.
func (r *Room) try(face http.Handler, w http.ResponseWriter, rq *http.Request, body *kept) *trial {
	t := &trial{to: w, header: http.Header{}, cell: r.index}
	face.ServeHTTP(t, body.again(rq))
	t.WriteHeader(http.StatusOK) // unless it has been said
	return t
}

// trial is an answer that may not be the last word.
type trial struct {
	to        http.ResponseWriter
	cell      func(name string) int
	header    http.Header
	status    int    // 0: not said yet
	held      bool   // it is kept back
	elsewhere int    // the cell that it names
	body      []byte // of an answer kept back: a problem, which is short
}

// Header is what the answer will have.
func (t *trial) Header() http.Header { return t.header }

// Unwrap lets the deadlines of the connection be set.
func (t *trial) Unwrap() http.ResponseWriter { return t.to }

// WriteHeader decides whether the answer goes out.
func (t *trial) WriteHeader(status int) {
	if t.status != 0 {
		return
	}
	t.status = status
	if status == http.StatusMisdirectedRequest {
		t.elsewhere = t.cell(t.header.Get(Header))
	}
	t.held = status == http.StatusNotFound || status == http.StatusMisdirectedRequest && t.elsewhere >= 0
	if !t.held {
		t.open()
	}
}

// sentOn says whether another cell was named.
func (t *trial) sentOn() bool { return t.held && t.status == http.StatusMisdirectedRequest }

func (t *trial) open() {
	h := t.to.Header()
	for name, values := range t.header {
		h[name] = values
	}
	t.to.WriteHeader(t.status)
}

func (t *trial) Write(b []byte) (int, error) {
	t.WriteHeader(http.StatusOK)
	if t.held {
		t.body = append(t.body, b...)
		return len(b), nil
	}
	return t.to.Write(b)
}

// FlushError sends what has been written so far.
func (t *trial) FlushError() error {
	t.WriteHeader(http.StatusOK)
	if t.held {
		return nil
	}
	return http.NewResponseController(t.to).Flush()
}

// release sends an answer that was kept back.
func (t *trial) release() {
	if t.held {
		t.open()
		_, _ = t.to.Write(t.body) // the caller is gone if it fails
	}
}
