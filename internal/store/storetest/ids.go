package storetest

import (
	"bytes"

	"github.com/grapnelhq/grapnel/internal/store"
)

var idCases = []testCase{
	{"are read again, and found by their row id", func(d *driver) {
		d.stock()
		ids, seen := d.IDs(), map[string]bool{}
		for _, one := range d.list(store.DeliveryQuery{}) {
			id := ids.Of(&one)
			read, err := ids.Read(id)
			d.must(err, "Read "+id)
			if found := d.delivery(one.Seq); !read.Is(&found) || seen[id] {
				d.Errorf("%s of delivery %d is read as %v", id, one.Seq, read)
			}
			seen[id] = true
		}
		if len(seen) == 0 {
			d.Error("there are no deliveries")
		}
	}},
	{"with the row id in clear are none", func(d *driver) {
		d.stock()
		for _, one := range d.list(store.DeliveryQuery{}) {
			if read, err := d.IDs().Read(one.PlainID()); err == nil {
				d.Errorf("%s is read as %v", one.PlainID(), read)
			}
		}
	}},
	{"have an unguessable key", func(d *driver) {
		if key := d.IDs().Key(); len(key) < 16 || bytes.Count(key, key[:1]) == len(key) {
			d.Errorf("a secret of %d bytes", len(key))
		}
	}},
	{"stay when the store is opened anew", func(d *driver) {
		d.stock()
		before := map[int64]string{}
		for _, one := range d.list(store.DeliveryQuery{}) {
			before[one.Seq] = d.IDs().Of(&one)
		}
		d.reopen()
		after := map[int64]string{}
		for _, one := range d.list(store.DeliveryQuery{}) {
			after[one.Seq] = d.IDs().Of(&one)
		}
		d.same(after, before, "ids")
	}},
}
