package memory

import (
	"context"
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
// Injure is called before every call, with the name of its method, on the goroutine of the caller;
// it may also delay the call or observe it. Close does not fail.
type Faulty struct {
	Store  store.Store
	Injure func(method string) Fault
}

var _ store.Store = (*Faulty)(nil)

// IDs are the store's.
func (f *Faulty) IDs() *grapnel.IDs { return f.Store.IDs() }

// call makes one call, or not, as the fault says.
func call[T any](f *Faulty, method string, do func() (T, error)) (T, error) {
	var none T
	fault := f.Injure(method)
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

// Close closes the store.
func (f *Faulty) Close() error { return f.Store.Close() }

// Append may fail.
func (f *Faulty) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	return call(f, "Append", func() (store.Accepted, error) { return f.Store.Append(ctx, b) })
}

// Record may fail.
func (f *Faulty) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	return call(f, "Record", func() ([]store.Changed, error) { return f.Store.Record(ctx, changes) })
}

// Heads may fail.
func (f *Faulty) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	return call(f, "Heads", func() ([]store.Head, error) { return f.Store.Heads(ctx, endpoint, limit) })
}

// Events may fail.
func (f *Faulty) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	return call(f, "Events", func() ([]*grapnel.Event, error) { return f.Store.Events(ctx, seqs) })
}

// End may fail.
func (f *Faulty) End(ctx context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	return call(f, "End", func() (int, error) { return f.Store.End(ctx, endpoint, e, limit) })
}

// Again may fail.
func (f *Faulty) Again(ctx context.Context, scope store.Scope, r store.Redelivery) (store.Redelivered, error) {
	return call(f, "Again", func() (store.Redelivered, error) { return f.Store.Again(ctx, scope, r) })
}

// Config may fail.
func (f *Faulty) Config(ctx context.Context) (store.Config, error) {
	return call(f, "Config", func() (store.Config, error) { return f.Store.Config(ctx) })
}

// Changes may fail.
func (f *Faulty) Changes(ctx context.Context, since int64) (d store.ConfigChanges, complete bool, err error) {
	d, err = call(f, "Changes", func() (store.ConfigChanges, error) {
		d, complete, err = f.Store.Changes(ctx, since)
		return d, err
	})
	return d, complete && err == nil, err
}

// Version may fail.
func (f *Faulty) Version(ctx context.Context) (version, newest int64, err error) {
	version, err = call(f, "Version", func() (v int64, err error) {
		v, newest, err = f.Store.Version(ctx)
		return v, err
	})
	return version, newest, err
}

// PutEndpoint may fail.
func (f *Faulty) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	return call(f, "PutEndpoint", func() (store.Put, error) { return f.Store.PutEndpoint(ctx, scope, ep, with) })
}

// PutPolicy may fail.
func (f *Faulty) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return call(f, "PutPolicy", func() (store.Put, error) { return f.Store.PutPolicy(ctx, scope, p, with) })
}

// PutKey may fail.
func (f *Faulty) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return call(f, "PutKey", func() (store.Put, error) { return f.Store.PutKey(ctx, scope, k, with) })
}

// Recall may fail.
func (f *Faulty) Recall(ctx context.Context, key string, now time.Time) (*store.Answer, error) {
	return call(f, "Recall", func() (*store.Answer, error) { return f.Store.Recall(ctx, key, now) })
}

// Forget may fail.
func (f *Faulty) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	return call(f, "Forget", func() (int, error) { return f.Store.Forget(ctx, now, limit) })
}

// EventList may fail.
func (f *Faulty) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error) {
	return call(f, "EventList", func() ([]grapnel.Event, error) { return f.Store.EventList(ctx, scope, q) })
}

// Delivery may fail.
func (f *Faulty) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	return call(f, "Delivery", func() (*grapnel.Delivery, error) { return f.Store.Delivery(ctx, scope, seq) })
}

// DeliveryList may fail.
func (f *Faulty) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	return call(f, "DeliveryList", func() ([]grapnel.Delivery, error) { return f.Store.DeliveryList(ctx, scope, q) })
}

// Counts may fail.
func (f *Faulty) Counts(ctx context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error) {
	return call(f, "Counts", func() (map[string]map[grapnel.Status]int64, error) { return f.Store.Counts(ctx, scope) })
}

// Backlogs may fail.
func (f *Faulty) Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error) {
	return call(f, "Backlogs", func() ([]store.Backlog, error) { return f.Store.Backlogs(ctx, scope, tenant, now, limit) })
}

// Waiting may fail.
func (f *Faulty) Waiting(ctx context.Context, endpoint string, limit int) (int, error) {
	return call(f, "Waiting", func() (int, error) { return f.Store.Waiting(ctx, endpoint, limit) })
}

// RemoveEndpoint may fail.
func (f *Faulty) RemoveEndpoint(ctx context.Context, id string) error {
	_, err := call(f, "RemoveEndpoint", func() (struct{}, error) { return struct{}{}, f.Store.RemoveEndpoint(ctx, id) })
	return err
}

// DeletePolicy may fail.
func (f *Faulty) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := call(f, "DeletePolicy", func() (struct{}, error) { return struct{}{}, f.Store.DeletePolicy(ctx, scope, id, with) })
	return err
}

// PutEventType may fail.
func (f *Faulty) PutEventType(ctx context.Context, scope store.Scope, t grapnel.EventType, with store.With) (store.Put, error) {
	return call(f, "PutEventType", func() (store.Put, error) { return f.Store.PutEventType(ctx, scope, t, with) })
}

// DeleteEventType may fail.
func (f *Faulty) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := call(f, "DeleteEventType", func() (struct{}, error) { return struct{}{}, f.Store.DeleteEventType(ctx, scope, id, with) })
	return err
}

// DeleteKey may fail.
func (f *Faulty) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := call(f, "DeleteKey", func() (struct{}, error) { return struct{}{}, f.Store.DeleteKey(ctx, scope, id, with) })
	return err
}

// Remember may fail.
func (f *Faulty) Remember(ctx context.Context, once *store.Once) error {
	_, err := call(f, "Remember", func() (struct{}, error) { return struct{}{}, f.Store.Remember(ctx, once) })
	return err
}

// Head may fail.
func (f *Faulty) Head(ctx context.Context, delivery int64) (head *store.Head, first bool, err error) {
	head, err = call(f, "Head", func() (*store.Head, error) {
		var h *store.Head
		h, first, err = f.Store.Head(ctx, delivery)
		return h, err
	})
	return head, first && err == nil, err
}

// Event may fail.
func (f *Faulty) Event(ctx context.Context, scope store.Scope, tenant, id string) (e *grapnel.Event, ds []grapnel.Delivery, err error) {
	e, err = call(f, "Event", func() (*grapnel.Event, error) {
		var found *grapnel.Event
		found, ds, err = f.Store.Event(ctx, scope, tenant, id)
		return found, err
	})
	if err != nil {
		return nil, nil, err
	}
	return e, ds, nil
}

// Note may fail.
func (f *Faulty) Note(ctx context.Context, e grapnel.AuditEntry) error {
	_, err := call(f, "Note", func() (struct{}, error) { return struct{}{}, f.Store.Note(ctx, e) })
	return err
}

// AuditList may fail.
func (f *Faulty) AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error) {
	return call(f, "AuditList", func() ([]grapnel.AuditEntry, error) { return f.Store.AuditList(ctx, scope, q) })
}

// StuckLanes may fail.
func (f *Faulty) StuckLanes(ctx context.Context, scope store.Scope, q store.LaneQuery) ([]grapnel.Lane, error) {
	return call(f, "StuckLanes", func() ([]grapnel.Lane, error) { return f.Store.StuckLanes(ctx, scope, q) })
}

// Hasten may fail.
func (f *Faulty) Hasten(ctx context.Context, endpoint string, h store.Hastening, limit int) (int, error) {
	return call(f, "Hasten", func() (int, error) { return f.Store.Hasten(ctx, endpoint, h, limit) })
}

// Standings may fail.
func (f *Faulty) Standings(ctx context.Context) ([]store.Standing, error) {
	return call(f, "Standings", func() ([]store.Standing, error) { return f.Store.Standings(ctx) })
}

// Totals may fail.
func (f *Faulty) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	return call(f, "Totals", func() ([]grapnel.Bucket, error) { return f.Store.Totals(ctx, scope, q) })
}

// Purge may fail.
func (f *Faulty) Purge(ctx context.Context, keep store.Keep, limit int) (int, error) {
	return call(f, "Purge", func() (int, error) { return f.Store.Purge(ctx, keep, limit) })
}

// Clear may fail.
func (f *Faulty) Clear(ctx context.Context, c store.Clearing, limit int) (int, error) {
	return call(f, "Clear", func() (int, error) { return f.Store.Clear(ctx, c, limit) })
}

// Imbalance may fail.
func (f *Faulty) Imbalance(ctx context.Context) (int64, error) {
	return call(f, "Imbalance", func() (int64, error) { return f.Store.Imbalance(ctx) })
}

// PutReplay may fail.
func (f *Faulty) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error) {
	return call(f, "PutReplay", func() (store.Put, error) { return f.Store.PutReplay(ctx, scope, r, with) })
}

// Replay may fail.
func (f *Faulty) Replay(ctx context.Context, scope store.Scope, id string) (grapnel.Replay, error) {
	return call(f, "Replay", func() (grapnel.Replay, error) { return f.Store.Replay(ctx, scope, id) })
}

// ReplayList may fail.
func (f *Faulty) ReplayList(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]grapnel.Replay, error) {
	return call(f, "ReplayList", func() ([]grapnel.Replay, error) { return f.Store.ReplayList(ctx, scope, q) })
}

// Advance may fail.
func (f *Faulty) Advance(ctx context.Context, step store.ReplayStep) ([]store.Redelivered, error) {
	return call(f, "Advance", func() ([]store.Redelivered, error) { return f.Store.Advance(ctx, step) })
}

// ReplayItems may fail.
func (f *Faulty) ReplayItems(ctx context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error) {
	return call(f, "ReplayItems", func() ([]grapnel.ReplayItem, error) { return f.Store.ReplayItems(ctx, scope, id, after, limit) })
}

// Annotate may fail.
func (f *Faulty) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	_, err := call(f, "Annotate", func() (struct{}, error) { return struct{}{}, f.Store.Annotate(ctx, scope, a) })
	return err
}

// DeliverySearch may fail.
func (f *Faulty) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	_, err = call(f, "DeliverySearch", func() (struct{}, error) {
		var err error
		list, resume, err = f.Store.DeliverySearch(ctx, scope, q, text)
		return struct{}{}, err
	})
	return list, resume, err
}

// Candidates may fail.
func (f *Faulty) Candidates(ctx context.Context, scope store.Scope,
	q store.CandidateQuery) (list []grapnel.Delivery, resume int64, err error) {
	_, err = call(f, "Candidates", func() (struct{}, error) {
		var err error
		list, resume, err = f.Store.Candidates(ctx, scope, q)
		return struct{}{}, err
	})
	return list, resume, err
}

// PutSource may fail.
func (f *Faulty) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return call(f, "PutSource", func() (store.Put, error) { return f.Store.PutSource(ctx, scope, src, with) })
}

// DeleteSource may fail.
func (f *Faulty) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return call(f, "DeleteSource", func() (store.Put, error) { return f.Store.DeleteSource(ctx, scope, id, with) })
}

// Claim may fail.
func (f *Faulty) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return call(f, "Claim", func() (store.Claimed, error) { return f.Store.Claim(ctx, c) })
}

// Extend may fail.
func (f *Faulty) Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error) {
	return call(f, "Extend", func() (grapnel.Lease, error) { return f.Store.Extend(ctx, token, now, by) })
}

// Lease may fail.
func (f *Faulty) Lease(ctx context.Context, token string) (grapnel.Lease, error) {
	return call(f, "Lease", func() (grapnel.Lease, error) { return f.Store.Lease(ctx, token) })
}

// LeaseList may fail.
func (f *Faulty) LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error) {
	return call(f, "LeaseList", func() ([]grapnel.Lease, error) { return f.Store.LeaseList(ctx, queue, limit) })
}

// QueueCounts may fail.
func (f *Faulty) QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error) {
	return call(f, "QueueCounts", func() (grapnel.QueueCounts, error) { return f.Store.QueueCounts(ctx, queue, now) })
}

// SetAside may fail.
func (f *Faulty) SetAside(ctx context.Context, a grapnel.Aside) error {
	_, err := call(f, "SetAside", func() (struct{}, error) { return struct{}{}, f.Store.SetAside(ctx, a) })
	return err
}

// Aside may fail.
func (f *Faulty) Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	return call(f, "Aside", func() (grapnel.Aside, error) { return f.Store.Aside(ctx, scope, id) })
}

// AsideList may fail.
func (f *Faulty) AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error) {
	return call(f, "AsideList", func() ([]grapnel.Aside, error) { return f.Store.AsideList(ctx, scope, q) })
}

// Unlearn may fail.
func (f *Faulty) Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error) {
	return call(f, "Unlearn", func() (int, error) { return f.Store.Unlearn(ctx, now, asideBefore, limit) })
}

// PutDocuments may fail.
func (f *Faulty) PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	return call(f, "PutDocuments", func() (store.Put, error) { return f.Store.PutDocuments(ctx, scope, writes, with) })
}

// Document may fail.
func (f *Faulty) Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error) {
	return call(f, "Document", func() (store.Document, error) { return f.Store.Document(ctx, scope, tenant, kind, id) })
}

// DocumentList may fail.
func (f *Faulty) DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	return call(f, "DocumentList", func() ([]store.Document, error) { return f.Store.DocumentList(ctx, scope, q) })
}

// ClearDocuments may fail.
func (f *Faulty) ClearDocuments(ctx context.Context, kind string, before time.Time, limit int) (int, error) {
	return call(f, "ClearDocuments", func() (int, error) { return f.Store.ClearDocuments(ctx, kind, before, limit) })
}

// HasType may fail.
func (f *Faulty) HasType(ctx context.Context, tenant, name string, limit int) (has bool, n int, err error) {
	n, err = call(f, "HasType", func() (int, error) {
		has, n, err = f.Store.HasType(ctx, tenant, name, limit)
		return n, err
	})
	return has && err == nil, n, err
}
