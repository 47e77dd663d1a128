package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Version returns what Config would return as version and newest.
func (s *reader) Version(ctx context.Context) (version, newest int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		version, newest, err = age(r)
		return err
	})
	return version, newest, err
}

// Changes only says whether the version has changed: a process that has the store to itself knows
// its own writes, and reads Config when an answer was lost.
func (s *reader) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	version, newest, err := s.Version(ctx)
	return store.ConfigChanges{Version: version, Newest: newest}, err == nil && version == since, err
}

func age(r *sqlite3.Conn) (version, newest int64, err error) {
	if version, err = rows.One(r, "SELECT version FROM configuration"); err != nil {
		return 0, 0, err
	}
	newest, err = rows.One(r, newestQuery)
	return version, newest, err
}

// Config returns all objects, sorted by id.
func (s *reader) Config(ctx context.Context) (c store.Config, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) (err error) {
		c.Version, c.Newest, err = age(r)
		c.Endpoints = bodies(r, &err, "SELECT revision, body FROM endpoint ORDER BY id", codec.DecodeEndpoint)
		c.Sources = bodies(r, &err, "SELECT revision, body FROM source ORDER BY id", codec.DecodeSource)
		c.Policies = bodies(r, &err, "SELECT revision, body FROM policy ORDER BY id", codec.DecodePolicy)
		c.Types = bodies(r, &err, "SELECT revision, body FROM event_type ORDER BY id", codec.DecodeEventType)
		c.Keys = bodies(r, &err, "SELECT 0, body FROM api_key ORDER BY id", codec.DecodeKey)
		c.Access = bodies(r, &err, "SELECT 0, body FROM access_record ORDER BY id", codec.DecodeAccess)
		return err
	})
	return c, err
}

// bodies reads the objects that a query finds, unless an earlier one has set err.
func bodies[T any](r *sqlite3.Conn, err *error, query string, decode func(revision int64, body []byte) (T, error)) (all []T) {
	if *err == nil {
		all, *err = rows.Each(r.Query(query), func(q *sqlite3.Stmt) (T, error) { return decode(q.Integer(0), q.Bytes(1)) })
	}
	return all
}
