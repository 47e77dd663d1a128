//nolint:revive // a comment on each method would say that it may fail
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Fault is the failure of one call. The zero Fault is no failure.
type Fault struct {
	Err     error // the error that the call returns; nil: no fault
	Applied bool  // the call has its effect nevertheless: its caller does not know the outcome of the commit
}

// Faulty is a store whose calls fail on demand. An error with a code of package grapnel says that
// nothing was written, so it must not be Applied.
//
// Injure is called before every call but Close and IDs, with the name of its method, on the
// goroutine of the caller; it may also delay the call or observe it.
type Faulty struct {
	Store  store.Store
	Injure func(method string) Fault // nil: no call fails

	serial *sync.Mutex // not nil: one call at a time is made, and none whose context has ended, as no caller waits for its effect
}

// calls is the Faulty through which a Store makes its calls; none of them fails.
type calls = Faulty

var _ store.Store = (*Faulty)(nil)

// call makes one call, or not, as the fault says.
func call[T any](ctx context.Context, f *Faulty, method string, do func() (T, error)) (T, error) {
	var none T
	if f.serial != nil {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		f.serial.Lock()
		defer f.serial.Unlock()
	}
	var fault Fault
	if f.Injure != nil {
		fault = f.Injure(method)
	}
	if fault.Err == nil {
		return do()
	}
	if fault.Applied {
		if _, err := do(); err != nil {
			return none, err // it had no effect, so its outcome is known
		}
	}
	return none, fault.Err
}

// do is call for a method that returns only an error.
func (f *Faulty) do(ctx context.Context, method string, do func() error) error {
	_, err := call(ctx, f, method, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// pair is call for a method that returns two results.
func pair[A, B any](ctx context.Context, f *Faulty, method string, do func() (A, B, error)) (A, B, error) {
	type results struct {
		a A
		b B
	}
	r, err := call(ctx, f, method, func() (r results, err error) {
		r.a, r.b, err = do()
		return r, err
	})
	return r.a, r.b, err
}

func (f *Faulty) Close() error { return f.Store.Close() }

func (f *Faulty) IDs() *grapnel.IDs { return f.Store.IDs() }

func (f *Faulty) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	return call(ctx, f, "Append", func() (store.Accepted, error) { return f.Store.Append(ctx, b) })
}

func (f *Faulty) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	return call(ctx, f, "Record", func() ([]store.Changed, error) { return f.Store.Record(ctx, changes) })
}

func (f *Faulty) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	return call(ctx, f, "Heads", func() ([]store.Head, error) { return f.Store.Heads(ctx, endpoint, limit) })
}

func (f *Faulty) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	return call(ctx, f, "Events", func() ([]*grapnel.Event, error) { return f.Store.Events(ctx, seqs) })
}

func (f *Faulty) End(ctx context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	return call(ctx, f, "End", func() (int, error) { return f.Store.End(ctx, endpoint, e, limit) })
}

func (f *Faulty) Again(ctx context.Context, scope store.Scope, r store.Redelivery) (store.Redelivered, error) {
	return call(ctx, f, "Again", func() (store.Redelivered, error) { return f.Store.Again(ctx, scope, r) })
}

func (f *Faulty) Config(ctx context.Context) (store.Config, error) {
	return call(ctx, f, "Config", func() (store.Config, error) { return f.Store.Config(ctx) })
}

func (f *Faulty) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	return pair(ctx, f, "Changes", func() (store.ConfigChanges, bool, error) { return f.Store.Changes(ctx, since) })
}

func (f *Faulty) Version(ctx context.Context) (version, newest int64, err error) {
	return pair(ctx, f, "Version", func() (int64, int64, error) { return f.Store.Version(ctx) })
}

func (f *Faulty) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	return call(ctx, f, "PutEndpoint", func() (store.Put, error) { return f.Store.PutEndpoint(ctx, scope, ep, with) })
}

func (f *Faulty) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return call(ctx, f, "PutPolicy", func() (store.Put, error) { return f.Store.PutPolicy(ctx, scope, p, with) })
}

func (f *Faulty) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return call(ctx, f, "PutKey", func() (store.Put, error) { return f.Store.PutKey(ctx, scope, k, with) })
}

func (f *Faulty) Recall(ctx context.Context, key string, now time.Time) (*store.Answer, error) {
	return call(ctx, f, "Recall", func() (*store.Answer, error) { return f.Store.Recall(ctx, key, now) })
}

func (f *Faulty) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	return call(ctx, f, "Forget", func() (int, error) { return f.Store.Forget(ctx, now, limit) })
}

func (f *Faulty) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error) {
	return call(ctx, f, "EventList", func() ([]grapnel.Event, error) { return f.Store.EventList(ctx, scope, q) })
}

func (f *Faulty) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	return call(ctx, f, "Delivery", func() (*grapnel.Delivery, error) { return f.Store.Delivery(ctx, scope, seq) })
}

func (f *Faulty) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	return call(ctx, f, "DeliveryList", func() ([]grapnel.Delivery, error) { return f.Store.DeliveryList(ctx, scope, q) })
}

func (f *Faulty) Counts(ctx context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error) {
	return call(ctx, f, "Counts", func() (map[string]map[grapnel.Status]int64, error) { return f.Store.Counts(ctx, scope) })
}

func (f *Faulty) Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error) {
	return call(ctx, f, "Backlogs", func() ([]store.Backlog, error) { return f.Store.Backlogs(ctx, scope, tenant, now, limit) })
}

func (f *Faulty) TenantCounts(ctx context.Context, tenants []string, limit int64) (map[string]store.TenantCount, error) {
	return call(ctx, f, "TenantCounts", func() (map[string]store.TenantCount, error) { return f.Store.TenantCounts(ctx, tenants, limit) })
}

func (f *Faulty) Waiting(ctx context.Context, endpoint string, limit int) (int, error) {
	return call(ctx, f, "Waiting", func() (int, error) { return f.Store.Waiting(ctx, endpoint, limit) })
}

func (f *Faulty) RemoveEndpoint(ctx context.Context, id string) error {
	return f.do(ctx, "RemoveEndpoint", func() error { return f.Store.RemoveEndpoint(ctx, id) })
}

func (f *Faulty) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return f.do(ctx, "DeletePolicy", func() error { return f.Store.DeletePolicy(ctx, scope, id, with) })
}

func (f *Faulty) PutEventType(ctx context.Context, scope store.Scope, t grapnel.EventType, with store.With) (store.Put, error) {
	return call(ctx, f, "PutEventType", func() (store.Put, error) { return f.Store.PutEventType(ctx, scope, t, with) })
}

func (f *Faulty) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return f.do(ctx, "DeleteEventType", func() error { return f.Store.DeleteEventType(ctx, scope, id, with) })
}

func (f *Faulty) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return f.do(ctx, "DeleteKey", func() error { return f.Store.DeleteKey(ctx, scope, id, with) })
}

func (f *Faulty) PutAccess(ctx context.Context, scope store.Scope, r grapnel.AccessRecord, with store.With) (store.Put, error) {
	return call(ctx, f, "PutAccess", func() (store.Put, error) { return f.Store.PutAccess(ctx, scope, r, with) })
}

func (f *Faulty) DeleteAccess(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return f.do(ctx, "DeleteAccess", func() error { return f.Store.DeleteAccess(ctx, scope, id, with) })
}

func (f *Faulty) Remember(ctx context.Context, once *store.Once) (*store.Answer, error) {
	return call(ctx, f, "Remember", func() (*store.Answer, error) { return f.Store.Remember(ctx, once) })
}

func (f *Faulty) Head(ctx context.Context, delivery int64) (*store.Head, bool, error) {
	return pair(ctx, f, "Head", func() (*store.Head, bool, error) { return f.Store.Head(ctx, delivery) })
}

func (f *Faulty) Event(ctx context.Context, scope store.Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error) {
	return pair(ctx, f, "Event", func() (*grapnel.Event, []grapnel.Delivery, error) { return f.Store.Event(ctx, scope, tenant, id) })
}

func (f *Faulty) Note(ctx context.Context, e grapnel.AuditEntry) error {
	return f.do(ctx, "Note", func() error { return f.Store.Note(ctx, e) })
}

func (f *Faulty) AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error) {
	return call(ctx, f, "AuditList", func() ([]grapnel.AuditEntry, error) { return f.Store.AuditList(ctx, scope, q) })
}

func (f *Faulty) AuditEnd(ctx context.Context) (int64, error) {
	return call(ctx, f, "AuditEnd", func() (int64, error) { return f.Store.AuditEnd(ctx) })
}

func (f *Faulty) StuckLanes(ctx context.Context, scope store.Scope, q store.LaneQuery) ([]grapnel.Lane, error) {
	return call(ctx, f, "StuckLanes", func() ([]grapnel.Lane, error) { return f.Store.StuckLanes(ctx, scope, q) })
}

func (f *Faulty) MakeDue(ctx context.Context, endpoint string, h store.MakingDue, limit int) (int, error) {
	return call(ctx, f, "MakeDue", func() (int, error) { return f.Store.MakeDue(ctx, endpoint, h, limit) })
}

func (f *Faulty) Standings(ctx context.Context) ([]store.Standing, error) {
	return call(ctx, f, "Standings", func() ([]store.Standing, error) { return f.Store.Standings(ctx) })
}

func (f *Faulty) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	return call(ctx, f, "Totals", func() ([]grapnel.Bucket, error) { return f.Store.Totals(ctx, scope, q) })
}

func (f *Faulty) Purge(ctx context.Context, keep store.Keep, limit int) (int, error) {
	return call(ctx, f, "Purge", func() (int, error) { return f.Store.Purge(ctx, keep, limit) })
}

func (f *Faulty) EraseEvents(ctx context.Context, e store.Erasure) (store.Erased, error) {
	return call(ctx, f, "EraseEvents", func() (store.Erased, error) { return f.Store.EraseEvents(ctx, e) })
}

func (f *Faulty) EraseTenant(ctx context.Context, e store.TenantErasure) (store.TenantErased, error) {
	return call(ctx, f, "EraseTenant", func() (store.TenantErased, error) { return f.Store.EraseTenant(ctx, e) })
}

func (f *Faulty) Reclaim(ctx context.Context) (string, error) {
	return call(ctx, f, "Reclaim", func() (string, error) { return f.Store.Reclaim(ctx) })
}

func (f *Faulty) Clear(ctx context.Context, c store.Clearing, limit int) (int, error) {
	return call(ctx, f, "Clear", func() (int, error) { return f.Store.Clear(ctx, c, limit) })
}

func (f *Faulty) Imbalance(ctx context.Context) (int64, error) {
	return call(ctx, f, "Imbalance", func() (int64, error) { return f.Store.Imbalance(ctx) })
}

func (f *Faulty) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error) {
	return call(ctx, f, "PutReplay", func() (store.Put, error) { return f.Store.PutReplay(ctx, scope, r, with) })
}

func (f *Faulty) Replay(ctx context.Context, scope store.Scope, id string) (grapnel.Replay, error) {
	return call(ctx, f, "Replay", func() (grapnel.Replay, error) { return f.Store.Replay(ctx, scope, id) })
}

func (f *Faulty) ReplayList(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]grapnel.Replay, error) {
	return call(ctx, f, "ReplayList", func() ([]grapnel.Replay, error) { return f.Store.ReplayList(ctx, scope, q) })
}

func (f *Faulty) Advance(ctx context.Context, step store.ReplayStep) ([]store.Redelivered, error) {
	return call(ctx, f, "Advance", func() ([]store.Redelivered, error) { return f.Store.Advance(ctx, step) })
}

func (f *Faulty) ReplayItems(ctx context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error) {
	return call(ctx, f, "ReplayItems", func() ([]grapnel.ReplayItem, error) { return f.Store.ReplayItems(ctx, scope, id, after, limit) })
}

func (f *Faulty) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	return f.do(ctx, "Annotate", func() error { return f.Store.Annotate(ctx, scope, a) })
}

func (f *Faulty) Feed(ctx context.Context, scope store.Scope, q store.FeedQuery) (store.FeedPage, error) {
	return call(ctx, f, "Feed", func() (store.FeedPage, error) { return f.Store.Feed(ctx, scope, q) })
}

func (f *Faulty) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	return pair(ctx, f, "DeliverySearch", func() ([]grapnel.Delivery, int64, error) { return f.Store.DeliverySearch(ctx, scope, q, text) })
}

func (f *Faulty) Candidates(ctx context.Context, scope store.Scope,
	q store.CandidateQuery) (list []grapnel.Delivery, resume int64, err error) {
	return pair(ctx, f, "Candidates", func() ([]grapnel.Delivery, int64, error) { return f.Store.Candidates(ctx, scope, q) })
}

func (f *Faulty) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return call(ctx, f, "PutSource", func() (store.Put, error) { return f.Store.PutSource(ctx, scope, src, with) })
}

func (f *Faulty) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return call(ctx, f, "DeleteSource", func() (store.Put, error) { return f.Store.DeleteSource(ctx, scope, id, with) })
}

func (f *Faulty) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return call(ctx, f, "Claim", func() (store.Claimed, error) { return f.Store.Claim(ctx, c) })
}

func (f *Faulty) Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error) {
	return call(ctx, f, "Extend", func() (grapnel.Lease, error) { return f.Store.Extend(ctx, token, now, by) })
}

func (f *Faulty) Lease(ctx context.Context, token string) (grapnel.Lease, error) {
	return call(ctx, f, "Lease", func() (grapnel.Lease, error) { return f.Store.Lease(ctx, token) })
}

func (f *Faulty) LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error) {
	return call(ctx, f, "LeaseList", func() ([]grapnel.Lease, error) { return f.Store.LeaseList(ctx, queue, limit) })
}

func (f *Faulty) QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error) {
	return call(ctx, f, "QueueCounts", func() (grapnel.QueueCounts, error) { return f.Store.QueueCounts(ctx, queue, now) })
}

func (f *Faulty) SetAside(ctx context.Context, a grapnel.Aside) error {
	return f.do(ctx, "SetAside", func() error { return f.Store.SetAside(ctx, a) })
}

func (f *Faulty) ChangeAside(ctx context.Context, a grapnel.Aside, drop bool) error {
	return f.do(ctx, "ChangeAside", func() error { return f.Store.ChangeAside(ctx, a, drop) })
}

func (f *Faulty) Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	return call(ctx, f, "Aside", func() (grapnel.Aside, error) { return f.Store.Aside(ctx, scope, id) })
}

func (f *Faulty) AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error) {
	return call(ctx, f, "AsideList", func() ([]grapnel.Aside, error) { return f.Store.AsideList(ctx, scope, q) })
}

func (f *Faulty) Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error) {
	return call(ctx, f, "Unlearn", func() (int, error) { return f.Store.Unlearn(ctx, now, asideBefore, limit) })
}

func (f *Faulty) PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	return call(ctx, f, "PutDocuments", func() (store.Put, error) { return f.Store.PutDocuments(ctx, scope, writes, with) })
}

func (f *Faulty) Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error) {
	return call(ctx, f, "Document", func() (store.Document, error) { return f.Store.Document(ctx, scope, tenant, kind, id) })
}

func (f *Faulty) DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	return call(ctx, f, "DocumentList", func() ([]store.Document, error) { return f.Store.DocumentList(ctx, scope, q) })
}

func (f *Faulty) ClearDocuments(ctx context.Context, kind string, before time.Time, limit int) (int, error) {
	return call(ctx, f, "ClearDocuments", func() (int, error) { return f.Store.ClearDocuments(ctx, kind, before, limit) })
}

func (f *Faulty) HasType(ctx context.Context, tenant, name string, limit int) (has bool, n int, err error) {
	return pair(ctx, f, "HasType", func() (bool, int, error) { return f.Store.HasType(ctx, tenant, name, limit) })
}
