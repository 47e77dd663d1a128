//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/sign"
)

// fakeVariable makes the test binary a server with the mistake that it names; "none" makes a
// correct one.
const fakeVariable = "GRAPNEL_E2E_FAKE"

// fake is the smallest server that keeps the promises: one file of fsynced lines, one goroutine per
// lane. It exists to show that the harness catches servers that break them.
type fake struct {
	bug  string
	file *os.File

	mu        sync.Mutex
	endpoints []fakeEndpoint
	rows      []*fakeRow
	events    map[string]bool
	lanes     map[string][]*fakeRow
	working   map[string]bool // lanes that have a goroutine
}

type fakeEndpoint struct {
	ID, URL, Secret string
	EventTypes      []string `json:"event_types"`
}

type fakeRow struct {
	row
	Event newEvent
	at    fakeEndpoint
	due   time.Time
}

// fakeLine is one fsynced line: an endpoint, an event, or an outcome.
type fakeLine struct {
	Endpoint  *fakeEndpoint `json:",omitempty"`
	Event     []byte        `json:",omitempty"` // as received
	Failed    string        `json:",omitempty"` // the delivery whose attempt failed
	Due       time.Time     // time of the next attempt
	Delivered string        `json:",omitempty"`
}

func serveFake(bug string) int {
	flags := flag.NewFlagSet("fake", flag.ContinueOnError)
	listen, store := flags.String("listen", "", ""), flags.String("store", "", "")
	flags.String("egress-allow", "", "")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return 2
	}
	f := &fake{bug: bug, events: map[string]bool{}, lanes: map[string][]*fakeRow{}, working: map[string]bool{}}
	if err := f.open(strings.TrimPrefix(*store, "sqlite:")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/endpoints", f.create)
	mux.HandleFunc("POST /v1/events", f.publish)
	mux.HandleFunc("GET /v1/deliveries", f.list)
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_ = server.ListenAndServe()
	return 0
}

// open reads the file and continues with the deliveries that have no outcome.
func (f *fake) open(path string) error {
	var err error
	if f.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	lines := bufio.NewScanner(f.file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l fakeLine
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			break // a torn last line was never acknowledged
		}
		switch {
		case l.Endpoint != nil:
			f.endpoints = append(f.endpoints, *l.Endpoint)
		case l.Event != nil:
			var e newEvent
			if json.Unmarshal(l.Event, &e) != nil {
				return fmt.Errorf("an event cannot be read: %s", l.Event)
			}
			f.place(e)
		case l.Failed != "":
			f.fail(l.Failed, l.Due)
		default:
			f.finish(l.Delivered)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
	return lines.Err()
}

// write returns when the line is durable.
func (f *fake) write(l fakeLine) {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = f.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		panic(err)
	}
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var e fakeEndpoint
	if json.NewDecoder(r.Body).Decode(&e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var random [32]byte
	_, _ = rand.Read(random[:])
	e.ID, e.Secret = fmt.Sprintf("ep_%d", len(f.endpoints)), "whsec_"+base64.StdEncoding.EncodeToString(random[:])
	f.endpoints = append(f.endpoints, e)
	f.write(fakeLine{Endpoint: &e})
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(e)
}

func (f *fake) publish(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var e newEvent
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if f.events[e.ID] {
		return
	}
	if f.bug != "forgets events" {
		f.write(fakeLine{Event: body})
	}
	f.place(e)
	f.wake()
	w.WriteHeader(http.StatusAccepted)
}

// wake gives every lane with pending deliveries a goroutine. The caller holds mu.
func (f *fake) wake() {
	for lane, waiting := range f.lanes {
		if len(waiting) > 0 && !f.working[lane] {
			f.working[lane] = true
			go f.work(lane)
		}
	}
}

// place adds an event's deliveries to their lanes.
func (f *fake) place(e newEvent) {
	f.events[e.ID] = true
	for _, ep := range f.endpoints {
		if len(ep.EventTypes) > 0 && !slices.Contains(ep.EventTypes, e.Type) {
			continue
		}
		d := &fakeRow{Event: e, at: ep, row: row{ID: fmt.Sprintf("dlv_%d", len(f.rows)+1), EventID: e.ID, EndpointID: ep.ID,
			Status: grapnel.Pending}}
		lane := d.ID
		if e.Key != "" {
			lane = ep.ID + " " + e.Key
			for _, o := range f.rows {
				if o.EndpointID == ep.ID && o.Event.Key == e.Key {
					d.Sequence++
				}
			}
			d.Sequence++
		}
		f.rows = append(f.rows, d)
		f.lanes[lane] = append(f.lanes[lane], d)
	}
}

// fail counts an attempt and sets when the next may be. A server that forgets events may have the
// outcome of a delivery it does not know.
func (f *fake) fail(id string, due time.Time) {
	for _, d := range f.rows {
		if d.ID == id {
			d.due, d.Attempts = due, d.Attempts+1
		}
	}
}

func (f *fake) finish(id string) {
	for _, d := range f.rows {
		if d.ID == id {
			d.Status, d.Attempts = grapnel.Delivered, d.Attempts+1
		}
	}
	for name, lane := range f.lanes {
		f.lanes[name] = slices.DeleteFunc(lane, func(d *fakeRow) bool { return d.ID == id })
	}
}

// work delivers a lane until it is empty.
func (f *fake) work(lane string) {
	for {
		f.mu.Lock()
		if len(f.lanes[lane]) == 0 {
			f.working[lane] = false
			f.mu.Unlock()
			return
		}
		d := f.lanes[lane][0]
		number, due := d.Attempts+1, d.due
		f.mu.Unlock()
		pause(context.Background(), time.Until(due))
		delivered := f.send(d, number)
		f.mu.Lock()
		f.note(lane, d, delivered)
		f.mu.Unlock()
	}
}

// note stores the outcome of an attempt at the head of a lane. The caller holds mu.
func (f *fake) note(lane string, d *fakeRow, delivered bool) {
	l := fakeLine{Delivered: d.ID}
	if !delivered {
		l = fakeLine{Failed: d.ID, Due: time.Now().Add(time.Second)}
	}
	if f.bug != "forgets outcomes" {
		f.write(l)
	}
	if delivered {
		f.finish(d.ID)
		return
	}
	f.fail(d.ID, l.Due)
	if f.bug == "lets later ones pass" {
		f.lanes[lane] = append(f.lanes[lane][1:], d)
	}
}

func (f *fake) send(d *fakeRow, number int) bool {
	body := fmt.Appendf(nil, `{"id":%q,"data":%s}`, d.EventID, d.Event.Data)
	if f.bug == "re-encodes data" {
		var v any
		_ = json.Unmarshal(d.Event.Data, &v)
		body, _ = json.Marshal(map[string]any{"id": d.EventID, "data": v})
	}
	now := time.Now()
	signature, err := sign.Sign(d.EventID, now, body, d.at.Secret)
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequest(http.MethodPost, d.at.URL, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"webhook-id": d.EventID, "webhook-timestamp": strconv.FormatInt(now.Unix(), 10),
		"webhook-signature": signature, "grapnel-delivery": d.ID, "grapnel-sequence": strconv.FormatInt(d.Sequence, 10),
		"grapnel-attempt": strconv.Itoa(number), "grapnel-trigger": "schedule"} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode/100 == 2
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	from, _ := strconv.Atoi(q.Get("cursor"))
	page := struct {
		Data []row  `json:"data"`
		Next string `json:"next"`
	}{}
	for i := from; i < len(f.rows); i++ {
		if status := q.Get("status"); status != "" && string(f.rows[i].Status) != status {
			continue
		}
		if len(page.Data) == limit {
			page.Next = strconv.Itoa(i)
			break
		}
		page.Data = append(page.Data, f.rows[i].row)
	}
	_ = json.NewEncoder(w).Encode(page)
}
