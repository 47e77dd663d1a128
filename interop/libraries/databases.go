package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// smoked is the number of events that go through a server on PostgreSQL: enough for a pooler to
// give each of its connections to another transaction several times.
const smoked = 60

// databases runs the binary on PostgreSQL, directly and through PgBouncer.
func (l *lab) databases(ctx context.Context) (all []section, err error) {
	db, err := pgtest.Start(ctx, pgtest.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Stop()) }()
	pooler, err := db.NewPooler(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pooler.Close()) }()
	direct, err := db.Create(ctx, "direct")
	if err != nil {
		return nil, err
	}
	if _, err := db.Create(ctx, "pooled"); err != nil {
		return nil, err
	}
	version, err := db.Ask(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1)")
	if err != nil {
		return nil, err
	}
	out := section{title: "Databases", about: fmt.Sprintf(
		"The built binary: %d events are published, delivered and listed. The versions are those of the machine.", smoked)}
	for _, place := range []struct{ library, version, url string }{
		{"PostgreSQL", version, direct},
		{"PgBouncer in transaction mode", bouncer(ctx), pooler.URL("pooled")},
	} {
		r := row{library: place.library, version: place.version, what: "publish, deliver, list", result: fmt.Sprintf("%d of %d", smoked, smoked)}
		if err := l.smoke(ctx, place.url); err != nil {
			r.failed, r.result = true, err.Error()
		}
		out.rows = append(out.rows, r)
	}
	return []section{out}, nil
}

func bouncer(ctx context.Context) string {
	for _, path := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if out, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil {
			return string(regexp.MustCompile(`\d+(\.\d+)+`).Find(out))
		}
	}
	return ""
}

// smoke lets a server on this store accept events, deliver them and list the outcomes.
func (l *lab) smoke(ctx context.Context, store string) (err error) {
	s, err := l.serve(ctx, store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	v := &receiver{got: map[string]map[string]capture{}, want: smoked, full: make(chan struct{})}
	web := httptest.NewServer(v)
	defer web.Close()
	if err := s.Do(ctx, http.MethodPost, "/v1/endpoints", nil, map[string]any{"url": web.URL}, nil); err != nil {
		return err
	}
	for n := range smoked {
		if _, err := s.Publish(ctx, client.NewEvent{Type: "interop.smoke", Key: strconv.Itoa(n % 7),
			Data: json.RawMessage(strconv.Itoa(n))}); err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case <-v.full:
	case <-ctx.Done():
		return errors.New("not all events were delivered")
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		page, err := s.Deliveries(ctx, client.DeliveryFilter{Status: []grapnel.Status{grapnel.Delivered}, Limit: 500})
		switch {
		case err != nil:
			return err
		case len(page.Data) == smoked:
			return nil
		}
		select {
		case <-again.C: // an outcome is recorded after the receiver has answered
		case <-ctx.Done():
			return fmt.Errorf("%d deliveries are listed as delivered", len(page.Data))
		}
	}
}
