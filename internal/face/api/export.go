package api

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// An export is a whole selection. It is read and written a page at a time, so that neither its
// length nor a slow caller costs more memory than a page. It has the deliveries that existed when
// it began, each in the state in which its page was read. When it cannot continue, the connection
// is broken off instead of ended, so that a part never looks like the whole.

var formatParam = param{name: "format", one: []string{"jsonl", "csv"}, doc: "jsonl if not given: one delivery per line"}

func exportRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/deliveries/export", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: exportDeliveries,
			name: "export-deliveries", tag: "Deliveries", summary: "Export deliveries, the newest first",
			query: append(deliveryFilter(), endpointParam, formatParam), gives: map[int]any{200: exported}},
		{method: "GET", path: "/v1/dead-letters/export", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: exportDeadLetters,
			name: "export-dead-letters", tag: "Dead letters", summary: "Export dead letters, the newest first",
			query: append(deadLetterFilter(), endpointParam, replayedParam, formatParam), gives: map[int]any{200: exported}},
	}
}

func exportDeliveries(a *api, c *call) (answer, error) { return export(a, c, false, "deliveries") }

func exportDeadLetters(a *api, c *call) (answer, error) { return export(a, c, true, "dead-letters") }

func export(a *api, c *call, deadLetters bool, name string) (answer, error) {
	s := a.selection(c, "")
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	s.DeadLetters, s.Replayed = deadLetters, deadLetters && c.query.text("replayed") != ""
	// The first page is read before anything is answered: what goes wrong at once is a problem like
	// any other.
	part, err := part(a, c, s, 0)
	if err != nil {
		return answer{}, err
	}
	return answer{instead: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		media, form := openapi.TypeNDJSON, sheet(&lines{})
		if c.query.text("format") == "csv" {
			media, name, form = "text/csv; charset=utf-8", name+".csv", &table{}
		} else {
			name += ".jsonl"
		}
		w.Header().Set("Content-Type", media)
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		if c.Method == http.MethodHead {
			return
		}
		if send(a, c, s, part, w, form) != nil {
			panic(http.ErrAbortHandler)
		}
	})}, nil
}

// portion is one page of an export, and where the next begins; 0: nowhere.
type portion struct {
	deliveries []wire.Delivery
	resume     int64
}

func part(a *api, c *call, s selection, before int64) (portion, error) {
	found, resume, err := a.find(c, s, before, a.Bounds.ExportPage)
	if err != nil {
		return portion{}, err
	}
	all, err := a.views(c, found)
	return portion{all, resume}, err
}

// send writes page after page. Only a page that cannot be read is logged: other errors come from a
// caller that has left or takes nothing in.
func send(a *api, c *call, s selection, p portion, w http.ResponseWriter, form sheet) error {
	connection := http.NewResponseController(w)
	out := bufio.NewWriterSize(w, 64<<10)
	if err := form.begin(out); err != nil {
		return err
	}
	for {
		_ = connection.SetWriteDeadline(time.Now().Add(a.Bounds.ExportSlow)) // what cannot be told to wait longer keeps the server's own limit
		for i := range p.deliveries {
			if err := form.row(&p.deliveries[i]); err != nil {
				return err
			}
		}
		if err := form.end(); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if p.resume == 0 {
			return nil
		}
		var err error
		if p, err = part(a, c, s, p.resume); err != nil {
			a.brokeOff(c, err)
		}
	}
}

// brokeOff ends an export that cannot continue.
func (a *api) brokeOff(c *call, err error) {
	if c.Context().Err() == nil {
		a.Log.Error("export failed; connection closed", slog.String("request_id", c.id), slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// sheet is a form in which deliveries are exported.
type sheet interface {
	begin(out *bufio.Writer) error
	row(d *wire.Delivery) error
	end() error // of a page
}

// lines writes JSON, a delivery a line.
type lines struct{ out *json.Encoder }

func (l *lines) begin(out *bufio.Writer) error {
	l.out = json.NewEncoder(out)
	l.out.SetEscapeHTML(false)
	return nil
}

func (l *lines) row(d *wire.Delivery) error { return l.out.Encode(d) }

func (*lines) end() error { return nil }

// table writes CSV. Null is an empty field. Text that a spreadsheet would take for a formula gets
// an apostrophe in front.
type table struct{ out *csv.Writer }

func (t *table) begin(out *bufio.Writer) error {
	t.out = csv.NewWriter(out)
	return t.out.Write([]string{"id", "event_id", "endpoint_id", "tenant", "type", "key", "sequence", "status", "reason_code", "reason", "attempts_made",
		"next_attempt_at", "created_at", "finished_at", "replay_of", "status_code", "error_class", "duration", "note", "discarded_at", "discard_reason",
		"replayed_at", "replayed_by", "replayed_as", "replay_result", "purge_at"})
}

func (t *table) row(d *wire.Delivery) error {
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(wire.TimeLayout)
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	var code, took, original string
	var class policy.Class
	if d.Last != nil {
		code, class, took = number(int64(d.Last.StatusCode)), d.Last.ErrorClass, time.Duration(d.Last.Duration).String()
	}
	if d.ReplayOf != nil {
		original = *d.ReplayOf
	}
	row := []string{d.ID, d.EventID, d.EndpointID, d.Tenant, d.Type, d.Key, number(d.Sequence),
		string(d.Status), string(d.ReasonCode), d.Reason,
		strconv.Itoa(d.AttemptsMade), at(d.NextAttemptAt), at(&d.CreatedAt), at(d.FinishedAt), original,
		code, string(class), took, d.Note, at(d.DiscardedAt),
		d.DiscardReason, at(d.ReplayedAt), d.ReplayedBy, d.ReplayedAs, string(d.ReplayResult), at(d.PurgeAt)}
	for i, field := range row {
		if field != "" && strings.ContainsRune("=+-@\t\r", rune(field[0])) {
			row[i] = "'" + field
		}
	}
	return t.out.Write(row)
}

func (t *table) end() error {
	t.out.Flush()
	return t.out.Error()
}

// exported is an answer with a Delivery a line, or a row.
var exported = texts{openapi.TypeNDJSON: "one Delivery per line", "text/csv": "one delivery per row, under a row of names"}
