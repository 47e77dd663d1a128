package erase

import (
	"context"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Get returns an erasure.
func (r *Runner) Get(ctx context.Context, id string) (*Job, error) {
	for _, kind := range []string{kindActive, kindDone, kindActive} { // it may change its kind in between
		d, err := r.o.Store.Document(ctx, store.Everyone(), "", kind, id)
		if err == nil {
			return read(&d)
		}
		if grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return nil, err
		}
	}
	for _, end := range r.o.Engine.TenantEnds() {
		if end.Job == id { // no node has begun with it
			return ordered(&end), nil
		}
	}
	return nil, store.ErrNotFound("erasure")
}

// List returns erasures, the newest first: those with ids below before, if that is not empty.
func (r *Runner) List(ctx context.Context, before string, limit int) (all []*Job, err error) {
	for _, kind := range []string{kindActive, kindDone} {
		list, err := r.list(ctx, kind, before, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b *Job) int { return strings.Compare(b.ID, a.ID) })
	all = slices.CompactFunc(all, func(a, b *Job) bool { return a.ID == b.ID })
	return all[:min(len(all), limit)], nil
}

func (r *Runner) list(ctx context.Context, kind, before string, limit int) (all []*Job, err error) {
	found, err := r.o.Store.DocumentList(ctx, store.Everyone(), store.DocumentQuery{Kind: kind, After: before, Backwards: true, Limit: limit})
	for i := range found {
		j, wrong := read(&found[i])
		if wrong != nil {
			return nil, wrong
		}
		all = append(all, j)
	}
	return all, err
}

func (r *Runner) save(ctx context.Context, j *Job, audit *grapnel.AuditEntry) error {
	d, err := j.document(r.o.Now())
	if err != nil {
		return err
	}
	put, err := r.o.Store.PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: d}}, store.With{Audit: audit})
	j.Revision = put.Revision
	return err
}
