package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The machine's calls about documents, and the model's.

var (
	someKinds     = []string{"alert", "sli"}
	someDocuments = []string{"a", "b", "c"}
)

// documentAt is the model's index of a document; -1: there is none.
func (m *model) documentAt(d store.Document) int {
	return slices.IndexFunc(m.documents, func(o store.Document) bool { return o.Tenant == d.Tenant && o.Kind == d.Kind && o.ID == d.ID })
}

func (m *model) putDocuments(scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	rules := bounds.Fill(store.DocumentBounds{})
	if err := rules.Check(scope, writes); err != nil {
		return store.Put{}, err
	}
	if then, err := m.recall(with.Once); then != nil || err != nil {
		return store.Put{Answer: then}, err
	}
	if with.Operational != nil && with.Operational.Config != m.config.Version {
		return store.Put{}, store.ErrStale
	}
	for _, w := range writes {
		if at := m.documentAt(w.Document); at < 0 && w.Revision != 0 || at >= 0 && m.documents[at].Revision != w.Revision {
			return store.Put{}, store.ErrDocumentChanged(w.ID)
		}
	}
	for _, w := range writes {
		if at := m.documentAt(w.Document); at >= 0 {
			m.documents = slices.Delete(m.documents, at, at+1)
		}
		if !w.Delete {
			m.documents = append(m.documents, stored(w))
		}
	}
	slices.SortFunc(m.documents, func(a, b store.Document) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Tenant, b.Tenant)) })
	done := store.Put{Revision: store.Written(writes), Version: m.config.Version, Operational: m.tell(with.Operational)}
	m.note(with.Audit)
	m.remember(with.Once, done)
	return done, nil
}

func (m *model) documentList(scope store.Scope, q store.DocumentQuery) (list []store.Document) {
	for _, d := range m.documents {
		if d.Kind == q.Kind && scope.Allows(d.Tenant) && (q.Tenant == "" || q.Tenant == d.Tenant) &&
			(q.After == "" || q.Backwards && d.ID < q.After || !q.Backwards && d.ID > q.After) {
			list = append(list, d)
		}
	}
	if q.Backwards {
		slices.Reverse(list)
	}
	return list[:min(len(list), q.Limit)]
}

// writesDocuments writes a few documents, now and then with an outdated revision or out of scope.
func (m *machine) writesDocuments(t *rapid.T) {
	now := m.tick(t)
	var writes []store.DocumentWrite
	for range rapid.IntRange(0, 3).Draw(t, "documents") {
		w := store.DocumentWrite{Document: store.Document{Tenant: pick(t, "tenant", m.actors...), Kind: pick(t, "kind", someKinds...),
			ID: pick(t, "id", someDocuments...), At: now, Body: fmt.Append(nil, now)}}
		if at := m.model.documentAt(w.Document); at >= 0 && !chance(t, "another revision", 6) {
			w.Revision, w.Delete = m.model.documents[at].Revision, chance(t, "deleted", 4)
		}
		writes = append(writes, w)
	}
	with := m.with(t, 4)
	scope := pick(t, "scope", append([]store.Scope{everyone, everyone, everyone}, someScopes...)...)
	known := len(m.model.events)
	want, wantErr := m.model.putDocuments(scope, writes, with)
	got, err := m.PutDocuments(m.ctx, scope, writes, with)
	if err == nil && wantErr == nil {
		m.acceptedOf(known, got.Operational, want.Operational)
	}
	m.agree(got, want, err, wantErr, "PutDocuments")
	m.compareDocuments()
	q := store.DocumentQuery{Kind: pick(t, "kind", someKinds...), Tenant: pick(t, "tenant", append([]string{""}, m.actors...)...),
		After: pick(t, "after", append([]string{""}, someDocuments...)...), Backwards: chance(t, "backwards", 2),
		Limit: rapid.IntRange(0, 4).Draw(t, "limit")}
	list, err := m.DocumentList(m.ctx, scope, q)
	m.agree(list, m.model.documentList(scope, q), err, nil, fmt.Sprintf("DocumentList %+v", q))
}

// clearsDocuments clears documents. Those written at the same time have no order, so either all of
// them are cleared or the limit is zero.
func (m *machine) clearsDocuments(t *rapid.T) {
	kind, before := pick(t, "kind", someKinds...), m.now.Add(-30*time.Second)
	limit := pick(t, "limit", 100, 100, 0)
	want := 0
	m.model.documents = slices.DeleteFunc(m.model.documents, func(d store.Document) bool {
		old := d.Kind == kind && d.At.Before(before) && limit > 0
		if old {
			want++
		}
		return old
	})
	got, err := m.ClearDocuments(m.ctx, kind, before, limit)
	m.agree(got, want, err, nil, "ClearDocuments")
	m.compareDocuments()
}

func (m *machine) compareDocuments() {
	m.Helper()
	for _, kind := range someKinds {
		m.same(m.driver.documents(kind), m.model.documentList(everyone, store.DocumentQuery{Kind: kind, Limit: math.MaxInt32}), kind)
	}
	for _, d := range m.model.documents {
		got, err := m.Document(m.ctx, store.Of(d.Tenant), d.Tenant, d.Kind, d.ID)
		if d.Tenant == "" {
			m.code(err, grapnel.CodeNotFound, "Document of the operator")
			continue
		}
		m.agree(got, d, err, nil, "Document")
	}
}
