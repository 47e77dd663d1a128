package store

import (
	"context"
	"sort"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Configuration is the data that operators change rarely and the engine has in memory. Every write
// creates a new version of the whole configuration. Append checks the version, so that an event is
// matched against the endpoints that exist when it is committed. A write cannot change the tenant
// of an object: under another tenant the object is not found.
type Configuration interface {
	// IDs makes and reads the ids of the store's deliveries. Its key is created with the store and
	// never changes.
	IDs() *grapnel.IDs
	// Config returns the whole configuration.
	Config(ctx context.Context) (Config, error)
	// Version returns Config's Version and Newest, cheaply: a caller that knows what a write has
	// changed need not read the whole.
	Version(ctx context.Context) (version, newest int64, err error)
	// Changes returns the differences since a version. false: the store does not have all of them,
	// because the version is too old. Then only Version and Newest are set, and the caller reads
	// Config.
	Changes(ctx context.Context, since int64) (ConfigChanges, bool, error)
	// PutEndpoint creates the endpoint (Revision 0) or replaces the one with this Revision. It
	// fails with grapnel.CodeConflict if the stored revision is another one, or if another queue of
	// the tenant that is not marked as deleted has the same name; and with grapnel.CodeNotFound if
	// the endpoint is not in scope. It returns the new revision and configuration version.
	PutEndpoint(ctx context.Context, scope Scope, ep grapnel.Endpoint, with With) (Put, error)
	// RemoveEndpoint deletes an endpoint that is marked as deleted. It fails with
	// grapnel.CodeConflict while the endpoint has pending deliveries. Its finished deliveries stay
	// in the history.
	RemoveEndpoint(ctx context.Context, id string) error
	// PutSource creates the source (Revision 0) or replaces the one with this Revision, as
	// PutEndpoint does. It fails with grapnel.CodeConflict if another source of the tenant has the
	// name.
	PutSource(ctx context.Context, scope Scope, src grapnel.Source, with With) (Put, error)
	// DeleteSource deletes a source; grapnel.CodeNotFound if it is not in scope. Its events stay,
	// and so do the records of requests already received (Known). It returns no revision.
	DeleteSource(ctx context.Context, scope Scope, id string, with With) (Put, error)
	// PutPolicy creates or replaces a named policy. It fails with grapnel.CodeConflict if another
	// policy of the tenant has the name. It counts revisions but does not check them.
	PutPolicy(ctx context.Context, scope Scope, p grapnel.NamedPolicy, with With) (Put, error)
	// DeletePolicy, DeleteKey and DeleteAccess ignore With.Once and With.Operational, so that they
	// work on a full disk.
	DeletePolicy(ctx context.Context, scope Scope, id string, with With) error
	// PutEventType creates the event type (Revision 0) or replaces the one with this Revision, as
	// PutEndpoint does. It fails with grapnel.CodeConflict if another event type of the tenant has
	// the name.
	PutEventType(ctx context.Context, scope Scope, t grapnel.EventType, with With) (Put, error)
	// DeleteEventType ignores With.Once and With.Operational, as DeletePolicy does.
	DeleteEventType(ctx context.Context, scope Scope, id string, with With) error
	// PutKey creates an API key, or replaces the one with the same id.
	PutKey(ctx context.Context, scope Scope, k grapnel.Key, with With) (Put, error)
	DeleteKey(ctx context.Context, scope Scope, id string, with With) error
	// PutAccess creates an access record, or replaces the one with the same id. Its times are stored
	// to the nanosecond: cut, an ending would spare sessions that began within its microsecond.
	PutAccess(ctx context.Context, scope Scope, r grapnel.AccessRecord, with With) (Put, error)
	DeleteAccess(ctx context.Context, scope Scope, id string, with With) error
	// Recall returns the stored answer of an idempotency key that has not expired at the given
	// time, or nil.
	Recall(ctx context.Context, key string, now time.Time) (*Answer, error)
	// Remember stores an answer on its own, for calls whose effect is idempotent by itself. An
	// earlier answer stays, and is returned; nil: there was none.
	Remember(ctx context.Context, once *Once) (*Answer, error)
	// Forget deletes at most limit expired answers, the earliest expiry first, and returns how
	// many. Stores differ in the order of answers that expire at the same time.
	Forget(ctx context.Context, now time.Time, limit int) (int, error)
}

// Config is the whole configuration at one version. Its lists are sorted by id.
type Config struct {
	Version   int64              // 1 or more, so a batch without a version is stale
	Endpoints []grapnel.Endpoint // including those marked as deleted
	Sources   []grapnel.Source
	Policies  []grapnel.NamedPolicy
	Types     []grapnel.EventType
	Keys      []grapnel.Key
	Access    []grapnel.AccessRecord
	Newest    int64 // the highest row id of any delivery so far
}

// ConfigChanges are the differences between two versions of the configuration.
type ConfigChanges struct {
	Version, Newest int64 // of the later version, as in Config
	Endpoints       Edits[grapnel.Endpoint]
	Sources         Edits[grapnel.Source]
	Policies        Edits[grapnel.NamedPolicy]
	Types           Edits[grapnel.EventType]
	Keys            Edits[grapnel.Key]
	Access          Edits[grapnel.AccessRecord]
}

// Edits are the differences between two lists that are sorted by id.
type Edits[T any] struct {
	Written []T      // created or replaced, as in the later list, sorted by id
	Removed []string // ids, sorted
}

// Merge returns the later list. It does not change the earlier list, and returns it if nothing
// differs.
func (e Edits[T]) Merge(list []T, id func(*T) string) []T {
	written, removed := e.Written, e.Removed
	if len(written) == 0 && len(removed) == 0 {
		return list
	}
	later := make([]T, 0, len(list)+len(written))
	for at := 0; at < len(list) || len(written) > 0; {
		switch {
		case at < len(list) && len(removed) > 0 && removed[0] <= id(&list[at]):
			if removed[0] == id(&list[at]) {
				at++
			}
			removed = removed[1:]
		case at == len(list) || len(written) > 0 && id(&written[0]) <= id(&list[at]):
			if at < len(list) && id(&written[0]) == id(&list[at]) {
				at++
			}
			later, written = append(later, written[0]), written[1:]
		default:
			// Items up to the next difference are copied at once: lists are long and differences
			// few.
			until := len(list)
			if len(written) > 0 {
				until = at + sort.Search(len(list)-at, func(i int) bool { return id(&list[at+i]) >= id(&written[0]) })
			}
			if len(removed) > 0 {
				until = min(until, at+sort.Search(len(list)-at, func(i int) bool { return id(&list[at+i]) >= removed[0] }))
			}
			later, at = append(later, list[at:until]...), until
		}
	}
	return later
}

// With is committed together with a write.
type With struct {
	Once        *Once
	Operational *Batch // events; its Config is the version before the write, else ErrStale. Its Once is ignored
	Audit       *grapnel.AuditEntry
}

// Put is the result of a configuration write.
type Put struct {
	Revision    int64
	Version     int64
	Answer      *Answer   // see Accepted.Answer
	Operational *Accepted // the result of With.Operational
}

// Known returns a Once that gives the answer of a call in advance, as Answered; nil: there is none.
func (o *Once) Known(done any) *Answered {
	if o == nil {
		return nil
	}
	a := o.Answer(done)
	a.Fingerprint = o.Fingerprint
	return &Answered{Key: o.Key, Answer: a, Expires: o.Expires, Now: o.Now}
}

// Once is the same as a Once.
func (a *Answered) Once() *Once {
	return &Once{Key: a.Key, Fingerprint: a.Answer.Fingerprint, Expires: a.Expires, Now: a.Now, Answer: func(any) Answer { return a.Answer }}
}

// PassKeys begins the keys of answers to passes of a tenant, followed by a slash.
func PassKeys(tenant string) string { return "pass/" + tenant }
