package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

const documentLimit = 256 << 10

func deletion(tenant, kind, id string, revision int64) store.DocumentWrite {
	return store.DocumentWrite{Document: store.Document{Tenant: tenant, Kind: kind, ID: id, Revision: revision}, Delete: true}
}

// stored is a write's document as the store has it.
func stored(w store.DocumentWrite) store.Document {
	w.Revision++
	return w.Document
}

func (d *driver) write(writes ...store.DocumentWrite) store.Put {
	d.Helper()
	put, err := d.PutDocuments(d.ctx, everyone, writes, store.With{})
	d.must(err, "PutDocuments")
	return put
}

// titles are the tenants and ids of documents.
func titles(list []store.Document) []string {
	return each(list, func(x *store.Document) string { return x.Tenant + "/" + x.ID })
}

// clearDocuments deletes those of a kind last written before a time, and checks the count.
func (d *driver) clearDocuments(kind string, before float64, limit, want int) {
	d.Helper()
	n, err := d.ClearDocuments(d.ctx, kind, at(before), limit)
	d.must(err, "ClearDocuments")
	d.same(n, want, "cleared")
}

var documentCases = []testCase{
	{"are created, replaced and deleted by revision", func(d *driver) {
		version := d.config().Version
		first := document(acme, "alert", "alr_1", 0, 1)
		d.same(d.write(first), store.Put{Revision: 1, Version: version}, "created")
		second := document(acme, "alert", "alr_1", 1, 2)
		d.same(d.write(second), store.Put{Revision: 2, Version: version}, "replaced")
		is, err := d.Document(d.ctx, store.Of(acme), acme, "alert", "alr_1")
		d.must(err, "Document")
		d.same(is, stored(second), "document")
		for _, w := range []store.DocumentWrite{first, second, document(acme, "alert", "alr_1", 3, 3), deletion(acme, "alert", "alr_1", 1),
			document(acme, "alert", "alr_absent", 1, 3), deletion(acme, "alert", "alr_absent", 1)} {
			_, err := d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{w}, store.With{})
			d.code(err, grapnel.CodeConflict, "another revision")
		}
		d.same(d.documents("alert"), []store.Document{stored(second)}, "documents")
		d.same(d.write(deletion(acme, "alert", "alr_1", 2)), store.Put{Version: version}, "deleted")
		_, err = d.Document(d.ctx, everyone, acme, "alert", "alr_1")
		d.code(err, grapnel.CodeNotFound, "deleted")
		d.same(d.write(first).Revision, int64(1), "revision of one that was deleted before")
		d.same(d.config().Version, version, "version of the configuration")
	}},
	{"are one per tenant, kind and id", func(d *driver) {
		for i, name := range [][3]string{{acme, "alert", "x"}, {bolt, "alert", "x"}, {"", "alert", "x"}, {acme, "issue", "x"},
			{acme, "alert", "y"}} {
			w := document(name[0], name[1], name[2], 0, float64(i))
			w.Body = []byte{byte(i)}
			d.write(w)
			is, err := d.Document(d.ctx, everyone, name[0], name[1], name[2])
			d.must(err, "Document")
			d.same(is, stored(w), "document")
		}
		d.write(deletion(acme, "alert", "x", 1))
		d.same(titles(d.documents("alert")), []string{"/x", "bolt/x", "acme/y"}, "alerts")
		d.same(titles(d.documents("issue")), []string{"acme/x"}, "issues")
	}},
	{"are written all together or not at all", func(d *driver) {
		d.write(document(acme, "alert", "b", 0, 1), document(bolt, "alert", "c", 0, 1), document(acme, "issue", "i", 0, 1))
		before := [][]store.Document{d.documents("alert"), d.documents("issue")}
		good := []store.DocumentWrite{document(acme, "alert", "a", 0, 2), document(acme, "alert", "b", 1, 2), deletion(acme, "issue", "i", 1)}
		for what, bad := range map[string]struct {
			scope store.Scope
			w     store.DocumentWrite
			code  grapnel.Code
		}{
			"exists":            {everyone, document(bolt, "alert", "c", 0, 2), grapnel.CodeConflict},
			"absent":            {everyone, document(bolt, "alert", "z", 1, 2), grapnel.CodeConflict},
			"tenant of another": {store.Of(acme), document(bolt, "alert", "c", 1, 2), grapnel.CodeNotFound},
			"twice":             {everyone, document(acme, "alert", "b", 1, 2), grapnel.CodeInvalid},
		} {
			for _, place := range []int{0, len(good)} {
				_, err := d.PutDocuments(d.ctx, bad.scope, slices.Insert(slices.Clone(good), place, bad.w),
					store.With{Operational: d.news("news", 3), Audit: entry(acme, epA, grapnel.VerbChange, 3)})
				d.code(err, bad.code, what)
			}
		}
		d.same([][]store.Document{d.documents("alert"), d.documents("issue")}, before, "documents")
		d.same(d.audit(store.AuditQuery{}), []grapnel.AuditEntry{}, "entries")
		d.absent("news")
		d.write(good...)
		d.same(titles(d.documents("alert")), []string{"acme/a", "acme/b", "bolt/c"}, "alerts")
		d.same(len(d.documents("issue")), 0, "issues")
		d.write()
	}},
	{"have a limited size and a name", func(d *driver) {
		largest := document(acme, "alert", strings.Repeat("é", 150), 0, 1)
		largest.Body = bytes.Repeat([]byte{0xfe}, documentLimit)
		d.write(largest)
		d.same(d.documents("alert"), []store.Document{stored(largest)}, "documents")
		for what, change := range map[string]func(*store.DocumentWrite){
			"body":            func(w *store.DocumentWrite) { w.Body = append(w.Body, 0) },
			"id":              func(w *store.DocumentWrite) { w.ID += "a" },
			"kind":            func(w *store.DocumentWrite) { w.Kind = w.ID + "a" },
			"no id":           func(w *store.DocumentWrite) { w.ID = "" },
			"no kind":         func(w *store.DocumentWrite) { w.Kind = "" },
			"revision":        func(w *store.DocumentWrite) { w.Revision = -1 },
			"delete of which": func(w *store.DocumentWrite) { w.Delete = true },
		} {
			w := largest
			w.Body = slices.Clone(w.Body)
			change(&w)
			_, err := d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{w}, store.With{})
			d.code(err, grapnel.CodeInvalid, what)
		}
		empty := document(acme, "alert", "empty", 0, 1)
		empty.Body = nil
		d.write(empty)
		d.same(d.documents("alert")[0], stored(empty), "document without body")
	}},
	{"are listed by id, then tenant, in both directions", func(d *driver) {
		for _, name := range []string{"acme/b", "/b", "bolt/b", "acme/d", "bolt/a", "acme/C", "/é"} {
			tenant, id, _ := strings.Cut(name, "/")
			d.write(document(tenant, "alert", id, 0, 1), document(tenant, "issue", id, 0, 1))
		}
		all, mine := []string{"acme/C", "bolt/a", "/b", "acme/b", "bolt/b", "acme/d", "/é"}, []string{"acme/C", "acme/b", "acme/d"}
		for _, c := range []struct {
			scope store.Scope
			q     store.DocumentQuery
			want  []string
		}{
			{everyone, store.DocumentQuery{Limit: 100}, all},
			{everyone, store.DocumentQuery{}, nil},
			{everyone, store.DocumentQuery{Limit: -1}, nil},
			{everyone, store.DocumentQuery{Limit: 3}, all[:3]},
			{everyone, store.DocumentQuery{After: "b", Limit: 100}, all[5:]},
			{everyone, store.DocumentQuery{After: "aa", Limit: 2}, all[2:4]},
			{everyone, store.DocumentQuery{After: "é", Limit: 2}, nil},
			{everyone, store.DocumentQuery{Tenant: acme, Limit: 100}, mine},
			{everyone, store.DocumentQuery{Tenant: "nobody", Limit: 100}, nil},
			{store.Of(acme), store.DocumentQuery{Limit: 100}, mine},
			{store.Of(acme), store.DocumentQuery{Tenant: acme, After: "C", Limit: 1}, mine[1:2]},
			{store.Of(acme), store.DocumentQuery{Tenant: bolt, Limit: 100}, nil},
		} {
			c.q.Kind = "alert"
			list, err := d.DocumentList(d.ctx, c.scope, c.q)
			d.must(err, "DocumentList")
			d.same(titles(list), c.want, fmt.Sprintf("%+v", c.q))
		}
		backwards := func(scope store.Scope, q store.DocumentQuery, want ...string) {
			d.Helper()
			q.Kind, q.Backwards = "alert", true
			list, err := d.DocumentList(d.ctx, scope, q)
			d.must(err, "DocumentList")
			d.same(titles(list), want, fmt.Sprintf("%+v", q))
		}
		backwards(everyone, store.DocumentQuery{Limit: 100}, "/é", "acme/d", "bolt/b", "acme/b", "/b", "bolt/a", "acme/C")
		backwards(everyone, store.DocumentQuery{After: "b", Limit: 100}, "bolt/a", "acme/C")
		backwards(everyone, store.DocumentQuery{After: "bb", Limit: 2}, "bolt/b", "acme/b")
		backwards(store.Of(acme), store.DocumentQuery{Limit: 2}, "acme/d", "acme/b")
		backwards(store.Of(acme), store.DocumentQuery{After: "b", Limit: 2}, "acme/C")
		backwards(store.Of(acme), store.DocumentQuery{After: "C", Limit: 2})
	}},
	{"are seen by their tenant only", func(d *driver) {
		d.write(document(acme, "alert", "a", 0, 1), document("", "alert", "o", 0, 1))
		for _, scope := range []store.Scope{{}, store.Of(""), store.Of(bolt), store.Of(acme).Only([]string{epA}),
			everyone.Only([]string{epA, epX})} {
			for _, tenant := range []string{acme, "", bolt} {
				if scope.Allows(tenant) {
					continue
				}
				for _, id := range []string{"a", "o"} {
					_, err := d.Document(d.ctx, scope, tenant, "alert", id)
					d.code(err, grapnel.CodeNotFound, "Document")
					for _, w := range []store.DocumentWrite{document(tenant, "alert", id, 1, 2), deletion(tenant, "alert", id, 1),
						document(tenant, "alert", "new", 0, 2)} {
						_, err = d.PutDocuments(d.ctx, scope, []store.DocumentWrite{w}, store.With{})
						d.code(err, grapnel.CodeNotFound, "PutDocuments")
					}
				}
				list, err := d.DocumentList(d.ctx, scope, store.DocumentQuery{Kind: "alert", Tenant: tenant, Limit: 10})
				d.must(err, "DocumentList")
				d.same(list, []store.Document{}, "DocumentList")
			}
		}
		_, err := d.Document(d.ctx, store.Of(acme), "", "alert", "o")
		d.code(err, grapnel.CodeNotFound, "the operator's")
		d.same(titles(d.documents("alert")), []string{"acme/a", "/o"}, "documents")
	}},
	{"are committed with events, an entry and an answer", func(d *driver) {
		o := once("key", 1, 0)
		with := store.With{Once: o, Operational: d.news("news", 10), Audit: entry(acme, epA, grapnel.VerbChange, 10)}
		version := d.config().Version
		done, err := d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{document(acme, "alert", "a", 0, 1)}, with)
		d.must(err, "PutDocuments")
		news := d.of("news")
		d.same(done, store.Put{Revision: 1, Version: version, Operational: &store.Accepted{
			Events: []store.Placed{{Seq: news[0].EventSeq, ID: "news", AcceptedAt: at(10), Deliveries: 1}}, Heads: d.heads(epB)}}, "put")
		d.same(len(d.audit(store.AuditQuery{})), 1, "entries")

		again, err := d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{document(acme, "alert", "a", 0, 1)}, with)
		d.must(err, "PutDocuments again")
		d.same(again.Answer.Status, 202, "the answer of then")
		d.same(again.Operational, (*store.Accepted)(nil), "told again")
		d.same(d.documents("alert")[0].Revision, int64(1), "revision")
		_, err = d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{document(acme, "alert", "b", 0, 1)}, store.With{Once: once("key", 2, 0)})
		d.code(err, grapnel.CodeMismatch, "another request with the key")

		stale := d.news("late", 11)
		d.put(endpoint("ep_new", acme))
		_, err = d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{document(acme, "alert", "b", 0, 1)},
			store.With{Operational: stale, Audit: entry(acme, epA, grapnel.VerbChange, 11)})
		d.stale(err, "PutDocuments")
		d.absent("late")
		d.same(titles(d.documents("alert")), []string{"acme/a"}, "documents")
		d.same(len(d.audit(store.AuditQuery{})), 1, "entries")
	}},
	{"are cleared by kind and time, the oldest first", func(d *driver) {
		d.write(document(acme, "sli", "a", 0, 10), document(bolt, "sli", "b", 0, 20), document("", "sli", "c", 0, 5),
			document(acme, "alert", "d", 0, 1))
		d.clearDocuments("sli", 5, 10, 0)
		d.clearDocuments("sli", 100, 0, 0)
		d.clearDocuments("nothing", 100, 10, 0)
		d.clearDocuments("sli", 100, 1, 1)
		d.same(titles(d.documents("sli")), []string{"acme/a", "bolt/b"}, "the oldest is cleared first")
		d.write(document(acme, "sli", "a", 1, 30))
		d.clearDocuments("sli", 30, 10, 1)
		d.same(titles(d.documents("sli")), []string{"acme/a"}, "the one written since stays")
		d.same(titles(d.documents("alert")), []string{"acme/d"}, "another kind")
		_, err := d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{document(bolt, "sli", "b", 1, 40)}, store.With{})
		d.code(err, grapnel.CodeConflict, "write of a cleared one")
	}},
	{"are cleared page by page", func(d *driver) {
		var writes []store.DocumentWrite
		for i := range 150 {
			writes = append(writes, document(acme, "sli", fmt.Sprintf("%03d", i), 0, float64(i)))
		}
		d.write(writes...)
		d.clearDocuments("sli", 1000, 100, 100)
		d.same(d.documents("sli")[0].ID, "100", "the first that is left")
		d.clearDocuments("sli", 1000, 100, 50)
	}},
	{"are the store's own, and the caller's own", func(d *driver) {
		w := document(acme, "alert", "a", 0, 1)
		w.At = w.At.Add(999)
		given := []store.DocumentWrite{w}
		d.write(given...)
		d.same(given[0].Revision, int64(0), "the caller's document is left alone")
		want := stored(document(acme, "alert", "a", 0, 1))
		w.Body[0] = 'x'
		for range 2 {
			one, err := d.Document(d.ctx, everyone, acme, "alert", "a")
			d.must(err, "Document")
			d.same(one, want, "document")
			list := d.documents("alert")
			d.same(list, []store.Document{want}, "documents")
			one.Body[0], list[0].Body[0] = 'y', 'z'
		}
	}},
	{"are written by one of several at once", func(d *driver) {
		const writers = 8
		results := make(chan error, writers)
		for i := range writers {
			go func() {
				// Both orders, so that two transactions that lock rows would wait for each other.
				writes := []store.DocumentWrite{document(acme, "alert", "a", 0, float64(i)), document(acme, "alert", "b", 0, float64(i))}
				if i%2 == 0 {
					slices.Reverse(writes)
				}
				_, err := d.PutDocuments(d.ctx, everyone, writes, store.With{})
				results <- err
			}()
		}
		won := 0
		for range writers {
			switch err := <-results; {
			case err == nil:
				won++
			default:
				d.code(err, grapnel.CodeConflict, "PutDocuments")
			}
		}
		d.same(won, 1, "writes that succeeded")
		list := d.documents("alert")
		d.same(len(list), 2, "documents")
		d.same(list[0].At, list[1].At, "both are of one write")
	}},
	{"survive a restart", func(d *driver) {
		d.write(document(acme, "alert", "a", 0, 1), document("", "alert", "o", 0, 1))
		d.write(document(acme, "alert", "a", 1, 2))
		before := d.documents("alert")
		d.reopen()
		d.same(d.documents("alert"), before, "documents")
		d.write(document(acme, "alert", "a", 2, 3))
	}},
}
