package storetest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
)

// follower is a copy of the configuration. It is updated by changes, or by a full read if the
// changes are incomplete.
type follower struct {
	store.Config
	changes, everything int // updates by Changes, and by Config
}

func (f *follower) catchUp(d *driver) {
	d.Helper()
	is, complete, err := d.Changes(d.ctx, f.Version)
	d.must(err, "Changes")
	now := d.config()
	d.same([]int64{is.Version, is.Newest}, []int64{now.Version, now.Newest}, "version and newest of the changes")
	if !complete {
		d.same(is, store.ConfigChanges{Version: now.Version, Newest: now.Newest}, "changes that are not complete")
		f.Config = now
		f.everything++
		return
	}
	f.Version, f.Newest = is.Version, is.Newest
	f.Endpoints = is.Endpoints.Merge(f.Endpoints, func(o *grapnel.Endpoint) string { return o.ID })
	f.Sources = is.Sources.Merge(f.Sources, func(o *grapnel.Source) string { return o.ID })
	f.Policies = is.Policies.Merge(f.Policies, func(o *grapnel.NamedPolicy) string { return o.ID })
	f.Types = is.Types.Merge(f.Types, func(o *grapnel.EventType) string { return o.ID })
	f.Keys = is.Keys.Merge(f.Keys, func(o *grapnel.Key) string { return o.ID })
	f.Access = is.Access.Merge(f.Access, func(o *grapnel.AccessRecord) string { return o.ID })
	f.changes++
	d.same(f.Config, now, "what was merged, compared with all that is there")
}

// RunChanges plays random changes of the configuration, which several copies follow at their own
// pace. kept is the number of latest versions whose changes the store must have; older ones are
// optional. The plays run on one store, one after another.
func RunChanges(t *testing.T, s store.Store, kept, plays int) {
	histories(t, plays)
	rapidtest.Check(t, func(r *rapid.T) {
		d := &driver{TB: r, Store: s, test: t, ctx: t.Context()}
		copies := make([]follower, 3)
		for i := range copies {
			copies[i].Config = d.config()
		}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			if rapid.IntRange(0, 2).Draw(r, "follow") == 0 {
				f := &copies[rapid.IntRange(0, len(copies)-1).Draw(r, "copy")]
				behind, before := d.config().Version-f.Version, f.everything
				f.catchUp(d)
				if behind <= int64(kept) && f.everything != before {
					d.Fatalf("the changes of %d versions could not be told, of %d they must", behind, kept)
				}
				continue
			}
			d.configureAtRandom(r)
		}
		for i := range copies {
			copies[i].catchUp(d)
		}
	})
}

// configureAtRandom makes one change of the configuration, or one that is refused.
func (d *driver) configureAtRandom(r *rapid.T) {
	n := rapid.IntRange(0, 3).Draw(r, "which")
	is := d.config()
	id := func(kind string) string { return fmt.Sprint(kind, n) }
	var err error
	switch rapid.IntRange(0, 12).Draw(r, "kind") {
	case 0, 1:
		ep := endpoint(id("ep_"), acme)
		for _, there := range is.Endpoints {
			if there.ID == ep.ID {
				ep.Revision = there.Revision
			}
		}
		if rapid.IntRange(0, 2).Draw(r, "delete") == 0 {
			ep.DeletedAt = at(float64(n + 1))
		}
		ep.Description = fmt.Sprint("as of version ", is.Version)
		d.put(ep)
	case 2:
		err = d.RemoveEndpoint(d.ctx, id("ep_"))
	case 3:
		src := source(id("src_"), acme, id("in"))
		for _, there := range is.Sources {
			if there.ID == src.ID {
				src.Revision = there.Revision
			}
		}
		_, err = d.PutSource(d.ctx, everyone, src, store.With{})
	case 4:
		_, err = d.DeleteSource(d.ctx, everyone, id("src_"), store.With{})
	case 5:
		_, err = d.PutPolicy(d.ctx, everyone, named(id("pol_"), acme, fmt.Sprint("p", rapid.IntRange(0, 3).Draw(r, "name"))), store.With{})
	case 6:
		err = d.DeletePolicy(d.ctx, everyone, id("pol_"), store.With{})
	case 7:
		_, err = d.PutKey(d.ctx, everyone, apiKey(id("key_"), acme), store.With{})
	case 8:
		err = d.DeleteKey(d.ctx, everyone, id("key_"), store.With{})
	case 9:
		et := eventType(id("typ_"), acme, fmt.Sprint("t", rapid.IntRange(0, 3).Draw(r, "name")))
		for _, there := range is.Types {
			if there.ID == et.ID {
				et.Revision = there.Revision
			}
		}
		_, err = d.PutEventType(d.ctx, everyone, et, store.With{})
	case 10:
		err = d.DeleteEventType(d.ctx, everyone, id("typ_"), store.With{})
	case 11:
		_, err = d.PutAccess(d.ctx, everyone, accessRecord(id("record_"), acme), store.With{})
	case 12:
		err = d.DeleteAccess(d.ctx, everyone, id("record_"), store.With{})
	}
	if code := grapnel.CodeOf(err); err != nil && code != grapnel.CodeNotFound && code != grapnel.CodeConflict {
		d.Fatalf("a change of the configuration: %v", err)
	}
}
