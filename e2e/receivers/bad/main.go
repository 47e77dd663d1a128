// Command bad is a test receiver (sdk/README.md) on PostgreSQL that is right, but for the flaw that
// FLAW names: one of those that samples of receivers have. Without FLAW it is right in all.
//
// A flaw is a few lines of handler.go, gate.go or claim.go behind is("name"). It promises nothing
// else: it is here to be found.
package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel/sign"
)

var flaws = strings.Fields(os.Getenv("FLAW"))

// is says whether the receiver has a flaw.
func is(flaw string) bool { return slices.Contains(flaws, flaw) }

const tables = `
	create table if not exists claim(key text primary key, owner text not null, state text not null, lease_until bigint not null,
		done_at bigint not null default 0);
	create table if not exists ledger(event text not null, source text not null, invoice text not null, amount text not null);
	create table if not exists invoice(id text primary key, status text not null default '', version bigint not null default 0,
		amount text not null default '', changed text not null default '', changed_by text not null default '');
	create table if not exists queue(id bigserial primary key, source text not null, event text not null, body bytea not null);
	create table if not exists dead(key text primary key, body bytea not null, error text not null)`

// receiver is one process of the receiver.
type receiver struct {
	db     *pgxpool.Pool
	verify map[string]*sign.Verifier // by source
	ahead  atomic.Int64              // nanoseconds that the clock is ahead of the real one
	alone  sync.Map                  // a *sync.Mutex for each key, of "recorded-after"

	mu     sync.Mutex
	faults map[string]*fault // by event
}

// fault is how the next runs of the work for an event end.
type fault struct {
	kind  string
	times int
	wait  time.Duration
}

func (r *receiver) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// probe answers what the ledger and the invoices have of an event or an invoice.
func (r *receiver) probe(w http.ResponseWriter, q *http.Request) {
	var answer struct {
		Effects int    `json:"effects"`
		State   string `json:"state"`
		Version int64  `json:"version"`
		Amount  string `json:"amount"`
	}
	event, key := q.FormValue("event"), q.FormValue("key")
	err := r.db.QueryRow(q.Context(), `select count(l.event), coalesce(nullif(i.amount, ''), max(l.amount), ''), coalesce(i.status, ''), coalesce(i.version, 0)
		from (select $1::text as event, $2::text as key) q left join ledger l on l.event = nullif(q.event, '') or l.invoice = nullif(q.key, '')
		left join invoice i on i.id = q.key group by i.id`, event, key).
		Scan(&answer.Effects, &answer.Amount, &answer.State, &answer.Version)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (r *receiver) fail(_ http.ResponseWriter, q *http.Request) {
	times, _ := strconv.Atoi(q.FormValue("times"))
	ms, _ := strconv.Atoi(q.FormValue("ms"))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[q.FormValue("event")] = &fault{q.FormValue("kind"), max(times, 1), time.Duration(ms) * time.Millisecond}
}

func (r *receiver) setClock(_ http.ResponseWriter, q *http.Request) {
	seconds, _ := strconv.ParseInt(q.FormValue("now"), 10, 64)
	r.ahead.Store(0)
	if seconds != 0 {
		r.ahead.Store(int64(time.Until(time.Unix(seconds, 0))))
	}
}

// hold keeps events at one step until the process is killed.
var hold struct {
	sync.Mutex
	step string
	ids  []string
}

// at is called by each event at each step that can be held.
func at(step, id string) {
	hold.Lock()
	held := step == hold.step
	if held {
		hold.ids = append(hold.ids, id)
	}
	hold.Unlock()
	if held {
		select {}
	}
}

func holdAt(_ http.ResponseWriter, q *http.Request) {
	hold.Lock()
	defer hold.Unlock()
	hold.step = q.FormValue("step")
}

func listHeld(w http.ResponseWriter, _ *http.Request) {
	hold.Lock()
	defer hold.Unlock()
	_ = json.NewEncoder(w).Encode(hold.ids)
}
