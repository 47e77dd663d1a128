package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
)

// Pending is what a database has still to send.
type Pending struct {
	Database  string    // where it is
	Newest    time.Time // acceptance of its newest event; zero: it has none
	Endpoints []PendingOf
	Held      int // endpoints and queues that the call has paused
}

// PendingOf is what it has to send to one endpoint.
type PendingOf struct {
	Tenant string
	Name   string // of a queue, or the endpoint's URL
	Status grapnel.EndpointStatus
	store.Backlog
}

// elsewhere is where the database of PostgreSQL is backed up and restored.
const elsewhere = "PostgreSQL has its own tools for that, such as pg_dump and pgBackRest: " +
	"see docs/backup.md. grapnel hold pauses all endpoints of a restored one before its servers start"

// Restore makes the database in a directory from a backup, for --store sqlite:DIR/grapnel.db, and
// returns its pending deliveries. With hold nothing is sent before a person resumes an endpoint.
// sqlite.Restore verifies the backup. size is that of the backup; negative: unknown.
func Restore(ctx context.Context, backup io.Reader, size int64, dir string, hold bool, o *Options) (p Pending, err error) {
	if place, err := ParseStore(o.Store); err != nil {
		return p, err
	} else if place.url != "" {
		return p, grapnel.Errorf(grapnel.CodeInvalid, "--store: %s", elsewhere)
	}
	place := Place{path: filepath.Join(dir, "grapnel.db")}
	if err := place.makeDir(); err != nil {
		return p, err
	}
	if err := enoughSpace(dir, size); err != nil {
		return p, err
	}
	return p, sqlite.Restore(ctx, backup, place.path, sqliteOptions(o), func(db *sqlite.Store) (err error) {
		p, err = pending(ctx, db, hold, o.Bounds.Hold)
		p.Database = place.path
		return err
	})
}

// Hold pauses all endpoints and queues of a database, and returns its pending deliveries.
func Hold(ctx context.Context, o *Options) (p Pending, err error) {
	place, err := ParseStore(o.Store)
	if err != nil {
		return p, err
	}
	found, err := Schema(ctx, o)
	if err != nil {
		return p, err
	}
	if p.Database = found.Place; found.Has == 0 { // opening it would create one
		return p, grapnel.Errorf(grapnel.CodeNotFound, "no database of Grapnel is at %s", found.Place)
	}
	db, _, err := openStore(ctx, place, nil, o)
	if err != nil {
		return p, err
	}
	p, err = pending(ctx, db, true, o.Bounds.Hold)
	return p, errors.Join(err, db.Close())
}

// pending counts what a database has to send, and holds it.
func pending(ctx context.Context, db store.Store, hold bool, b HoldBounds) (p Pending, err error) {
	if hold {
		if p.Held, err = holdAll(ctx, db, time.Now().UTC(), b); err != nil {
			return p, err
		}
	}
	config, err := db.Config(ctx)
	if err != nil {
		return p, err
	}
	newest, err := db.EventList(ctx, store.Everyone(), store.EventQuery{Limit: 1})
	if err != nil {
		return p, err
	}
	for i := range newest {
		p.Newest = newest[i].AcceptedAt
	}
	const all = 1 << 40
	list, err := db.Backlogs(ctx, store.Everyone(), "", time.Now().UTC(), all)
	for i := range list {
		at, found := slices.BinarySearchFunc(config.Endpoints, list[i].Endpoint,
			func(ep grapnel.Endpoint, id string) int { return cmp.Compare(ep.ID, id) })
		if !found || list[i].Pending == 0 {
			continue
		}
		ep := &config.Endpoints[at]
		of := PendingOf{Tenant: ep.Tenant, Name: ep.URL, Status: ep.Status, Backlog: list[i]}
		if ep.Queue != nil {
			of.Name = ep.Queue.Name
		}
		p.Endpoints = append(p.Endpoints, of)
	}
	slices.SortStableFunc(p.Endpoints, func(a, b PendingOf) int { return cmp.Compare(b.Pending, a.Pending) })
	return p, err
}

// holdAll pauses the endpoints and queues that are enabled. Channels go on: alerts of a restored
// server should reach people. An interrupted call is completed by repeating it.
func holdAll(ctx context.Context, db store.Store, now time.Time, b HoldBounds) (held int, err error) {
	for range bounds.Fill(b).Passes {
		config, err := db.Config(ctx)
		if err != nil {
			return held, err
		}
		changed := false
		for i := range config.Endpoints {
			ep := config.Endpoints[i]
			if ep.Status != grapnel.EndpointEnabled && !ep.HeldForConsent() || ep.Channel != nil || !ep.DeletedAt.IsZero() {
				continue
			}
			ep.Status, ep.DisabledReason, ep.DisabledAt, ep.UpdatedAt = grapnel.EndpointPaused, grapnel.HeldReason, now, now
			_, err := db.PutEndpoint(ctx, store.Everyone(), ep, store.With{Audit: &grapnel.AuditEntry{At: now, Tenant: ep.Tenant,
				Actor: grapnel.ActorItself, Verb: grapnel.VerbPause, Endpoint: ep.ID, Reason: grapnel.HeldReason}})
			if err != nil && grapnel.CodeOf(err) != grapnel.CodeConflict { // of a server that changes it now
				return held, err
			}
			if changed = true; err == nil {
				held++
			}
		}
		if !changed {
			return held, nil
		}
	}
	return held, grapnel.Errorf(grapnel.CodeConflict, "endpoints are being changed all the time; stop the servers of the database first")
}

// enoughSpace fails if the disk of a directory has no room for a file.
func enoughSpace(dir string, size int64) error {
	disk, err := spaceAt(dir)
	if err != nil || disk.Total == 0 || size < 0 || disk.Free >= uint64(size) { // not measured: writing will tell
		return nil
	}
	return grapnel.Errorf(grapnel.CodeStorageFull, "the disk of %s has %s free, and the database takes %s: free some space first",
		dir, say.Bytes(int(disk.Free)), say.Bytes(int(size)))
}
