package cells

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Header names a cell. In a request it names the cell that has to answer; in an answer with status
// 421, the cell where the tenant is.
const Header = "Grapnel-Cell"

// sourcePath precedes the id of a source in the path of an incoming webhook.
const sourcePath = "/in/"

// linkPath precedes the acknowledge link of an alert, which is a credential in itself.
const linkPath = "/v1/alert-links/"

// Routing are the handlers behind a router.
type Routing struct {
	Faces   []http.Handler                   // one per cell, in the order of the cells
	Token   func(http.Header) (string, bool) // finds the API key of a request, as faces do
	MaxBody int                              // largest body that faces read, in bytes

	// Pass is the tenant of a pass; false: the token is none that is valid. nil: there are no passes
	Pass func(token string) (tenant string, valid bool)
}

// Route makes the handler that passes each request to the face of its cell. Faces check requests,
// the router does not: home refuses a request that belongs to no cell.
//
// A webhook goes to the cell that has its source. A request with a tenant's key goes to the cell
// that has the tenant. A key that is bound to no tenant works in all cells: the request goes to the
// cell named in Header, else to the cell of the endpoint or source it names, else to home first. If
// that cell answers that the tenant is elsewhere, the cell named in the answer is asked. If home
// answers "not found", the other cells are asked. Such an answer means that nothing was changed, so
// repeating the request is safe. The link of an alert needs no key: any cell may have its alert.
func (r *Directory) Route(o Routing) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		at, free := r.place(rq, &o)
		if !free {
			o.Faces[at].ServeHTTP(w, rq)
			return
		}
		r.seek(&o, w, rq, at)
	})
}

// place is the cell to ask first; free: another one may have the subject of the request.
func (r *Directory) place(rq *http.Request, o *Routing) (at int, free bool) {
	if source, comes := strings.CutPrefix(rq.URL.Path, sourcePath); comes {
		return r.source(source), false
	}
	text, ok := o.Token(rq.Header)
	if !ok {
		return 0, strings.HasPrefix(rq.URL.Path, linkPath)
	}
	hash := sha256.Sum256([]byte(text))
	key, known := r.cells[0].Engine.KeyByHash(hash)
	tenant := key.Tenant
	if !known {
		if tenant, known = o.pass(text); known && tenant != "" {
			return max(0, r.index(r.Where(tenant).Cell)), false
		}
	}
	if known && tenant == "" {
		if name := rq.Header.Get(Header); name != "" {
			return max(0, r.index(name)), false
		}
		return r.subject(rq), true
	}
	return r.holder(func(e Engine) (string, bool) {
		key, known := e.KeyByHash(hash)
		return key.Tenant, known && key.Tenant != ""
	}), false
}

func (o *Routing) pass(token string) (tenant string, valid bool) {
	if o.Pass == nil {
		return "", false
	}
	return o.Pass(token)
}

// subject is the cell of the endpoint or source that a request names, in its path or as a filter of
// a list. Another cell would answer a list with nothing, or with the rows left behind by a tenant
// that has moved away.
func (r *Directory) subject(rq *http.Request) int {
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
func (r *Directory) endpoint(id string) int {
	return r.holder(func(e Engine) (string, bool) {
		ep, known := e.Endpoint(store.Everyone(), id)
		return ep.Tenant, known
	})
}

// source is the cell that has a source.
func (r *Directory) source(id string) int {
	return r.holder(func(e Engine) (string, bool) {
		s, known := e.Source(store.Everyone(), id)
		return s.Tenant, known
	})
}

// holder is the cell that has a tenant's object; home if none has it. While a tenant moves two
// cells know its objects, and the one that has the tenant counts.
func (r *Directory) holder(has func(Engine) (tenant string, known bool)) int {
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

// seek asks one cell, by default home, and then one after the other. A tenant may have moved more
// than once, and each cell knows only where it went from there. It may also move while a cell is
// asked.
func (r *Directory) seek(o *Routing, w http.ResponseWriter, rq *http.Request, at int) {
	body := &kept{from: rq.Body, most: o.MaxBody}
	first := r.follow(o, w, rq, body, at)
	if at == 0 && first.held && !first.sentOn() && !body.lost {
		for other := range o.Faces[1:] {
			if !r.follow(o, w, rq, body, other+1).held {
				return
			}
		}
	}
	first.release()
}

// follow asks a cell, and the cells that answers name.
func (r *Directory) follow(o *Routing, w http.ResponseWriter, rq *http.Request, body *kept, at int) *trial {
	t := r.try(o.Faces[at], w, rq, body)
	for more := len(o.Faces); t.sentOn() && !body.lost && more > 0; more-- {
		t = r.try(o.Faces[t.elsewhere], w, rq, body)
	}
	return t
}

// try lets a face answer, and holds the answer if another cell may know more.
func (r *Directory) try(face http.Handler, w http.ResponseWriter, rq *http.Request, body *kept) *trial {
	t := &trial{to: w, header: http.Header{}, cell: r.index}
	face.ServeHTTP(t, body.again(rq))
	t.WriteHeader(http.StatusOK) // unless the face has called it
	return t
}

// trial is an answer that another cell's answer may replace.
type trial struct {
	to        http.ResponseWriter
	cell      func(name string) int
	header    http.Header
	status    int    // 0: not written yet
	held      bool   // not sent yet
	elsewhere int    // index of the cell that it names
	body      []byte // of a held answer: a problem, which is short
}

// Header is the header of the answer.
func (t *trial) Header() http.Header { return t.header }

// Unwrap lets the connection's deadlines be set.
func (t *trial) Unwrap() http.ResponseWriter { return t.to }

// WriteHeader decides whether the answer is sent or held.
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

// sentOn says whether the answer names another cell.
func (t *trial) sentOn() bool { return t.held && t.status == http.StatusMisdirectedRequest }

func (t *trial) open() {
	maps.Copy(t.to.Header(), t.header)
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

// FlushError sends the bytes written so far.
func (t *trial) FlushError() error {
	t.WriteHeader(http.StatusOK)
	if t.held {
		return nil
	}
	return http.NewResponseController(t.to).Flush()
}

// release sends a held answer.
func (t *trial) release() {
	if t.held {
		t.open()
		_, _ = t.to.Write(t.body) // a failure means that the client has disconnected
	}
}
