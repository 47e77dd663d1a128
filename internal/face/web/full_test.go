package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// full is an API whose lists are as long as is asked for: each row is about another endpoint, every
// endpoint is in trouble, and every list goes on.
type full struct {
	http.Handler

	mu    sync.Mutex
	calls []string
	rows  int
}

func (api *full) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := httptest.NewRecorder()
	api.Handler.ServeHTTP(in, r)
	var answer map[string]any
	if in.Code < 300 && json.Unmarshal(in.Body.Bytes(), &answer) == nil {
		api.fill(r, answer)
		text, err := json.Marshal(answer)
		if err == nil {
			_, _ = w.Write(text)
			return
		}
	}
	w.WriteHeader(in.Code)
	_, _ = w.Write(in.Body.Bytes())
}

func (api *full) fill(r *http.Request, answer map[string]any) {
	api.mu.Lock()
	defer api.mu.Unlock()
	api.calls = append(api.calls, r.Method+" "+r.URL.String())
	data, list := answer["data"].([]any)
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if !list || len(data) == 0 || err != nil {
		return
	}
	ids := r.URL.Query()["id"]
	var rows []any
	for i := range limit {
		row := maps.Clone(data[i%len(data)].(map[string]any))
		if _, has := row["endpoint_id"]; has {
			row["endpoint_id"] = fmt.Sprintf("ep_01m84936z2ejq8z80vfy%06d", i)
		}
		if health, has := row["health"].(map[string]any); has {
			health["state"] = "open"
			row["id"] = fmt.Sprintf("ep_01m84936z2ejq8z80vfy%06d", i)
			if i < len(ids) {
				row["id"] = ids[i]
			}
			row["description"] = fmt.Sprintf("receiver number %d", i)
		}
		rows = append(rows, row)
	}
	answer["data"], answer["next"] = rows, "a_cursor"
	api.rows += len(rows)
}

// TestWhatAPageAsksFor: with lists of any length and any number of endpoints a page makes a bounded
// number of calls for a bounded number of rows, and its HTML stays small. No row of a list
// has a call of its own.
func TestWhatAPageAsksFor(t *testing.T) {
	most := map[string]struct{ calls, rows int }{
		"/":             {9, 900},  // a heart for each endpoint that is shown
		"/endpoints":    {10, 120}, // likewise, for the first of them
		"/replays/new":  {23, 220}, // a plan for each endpoint
		"/dead-letters": {4, 300}, "/events/evt_1": {4, 540}, "": {6, 230},
		// forms offer policies and sources by name
		"/endpoints/new": {2, 400}, "/endpoints/ep_1/edit": {3, 400}, "/queues/new": {2, 400}, "/queues/q_1/edit": {3, 400},
		"/endpoints/ep_1/delete": {2, 500},                                 // counts the deliveries that would be dropped
		"/event-types":           {2, 540}, "/event-types/typ_1": {3, 500}, // name the endpoints that match
		"/endpoints/ep_1":     {7, 230},  // and its dead letters
		"/customers/acme":     {12, 230}, // a heart for each endpoint that is shown
		"/deliveries/dlv_1":   {7, 230},  // and the body that was sent
		"/ordering-keys/ep_1": {4, 541},  // finds one key among the stuck ones
	}
	api := &full{}
	s := newSite(t, func(o *Options) { api.Handler = o.API; o.API = api })
	s.signIn()
	for _, target := range append(targets(), "/deliveries?q=status:failed", "/deliveries?q=text", "/dead-letters?q=text", "/dead-letters?q=error:dns",
		"/events?q=type:a", "/replays/new?q=endpoint:ep_1") {
		api.calls, api.rows = nil, 0
		w := s.ask("GET", target, nil)
		path, _, _ := strings.Cut(target, "?")
		limit, known := most[path]
		if !known {
			limit = most[""]
		}
		if w.Code != http.StatusOK || len(api.calls) > limit.calls || api.rows > limit.rows {
			t.Errorf("%s: answered %d after %d calls for %d rows, at most %+v:\n%s", target, w.Code, len(api.calls), api.rows, limit,
				strings.Join(api.calls, "\n"))
		}
		if w.Body.Len() > 60<<10 {
			t.Errorf("%s: %d bytes of HTML", target, w.Body.Len())
		}
	}
}
