package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/base/seal"
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
		c.Endpoints = bodies(ctx, r, s.sealer, &err, endpoints, "revision", codec.DecodeEndpoint)
		c.Sources = bodies(ctx, r, s.sealer, &err, sources, "revision", codec.DecodeSource)
		c.Policies = bodies(ctx, r, s.sealer, &err, policies, "revision", codec.DecodePolicy)
		c.Types = bodies(ctx, r, s.sealer, &err, eventTypes, "revision", codec.DecodeEventType)
		c.Keys = bodies(ctx, r, s.sealer, &err, keys, "0", codec.DecodeKey)
		c.Access = bodies(ctx, r, s.sealer, &err, accessRecords, "0", codec.DecodeAccess)
		return err
	})
	return c, err
}

// bodies reads the objects of a kind, sorted by id, unless an earlier query has set err.
func bodies[T any](ctx context.Context, r *sqlite3.Conn, sealer *seal.Sealer, err *error, kind objectKind, revision string,
	decode func(revision int64, body []byte) (T, error)) (all []T) {
	if *err != nil {
		return nil
	}
	of := &objectKinds[kind]
	all, *err = rows.Each(r.Query("SELECT "+revision+", body, tenant, id FROM "+of.table+" ORDER BY id"), func(q *sqlite3.Stmt) (is T, err error) {
		body, err := sealer.Open(ctx, seal.At{Tenant: q.String(2), Kind: of.what, ID: q.String(3)}, q.Bytes(1))
		if err == nil {
			is, err = decode(q.Integer(0), body)
		}
		return is, err
	})
	return all
}
