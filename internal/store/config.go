package store

import (
	"context"
	"sort"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Configuration is what operators change rarely and the engine keeps in memory. Every write makes a new version of the
// whole, which Append checks, so that an event is matched against the endpoints that exist when it is committed. What is
// written keeps its tenant: under another one it is not found.
type Configuration interface {
	// Config returns everything at once.
	Config(ctx context.Context) (Config, error)
	// Version returns what Config says of its age, at little cost: whoever knows what a write has changed need not read all.
	Version(ctx context.Context) (version, newest int64, err error)
	// Changes returns what was written after a version. false: the store cannot say that completely, because it is too long ago or
	// was written by a program that kept no list of changes; then only Version and Newest are set, and the caller reads Config.
	Changes(ctx context.Context, since int64) (ConfigChanges, bool, error)
	// PutEndpoint creates the endpoint (Revision 0) or replaces the one that has this Revision; another revision there is
	// grapnel.CodeConflict, none in scope grapnel.CodeNotFound. It returns the new revision and configuration version. The name of a queue
	// that another one of the tenant has, which is not marked as deleted, is grapnel.CodeConflict.
	PutEndpoint(ctx context.Context, scope Scope, ep grapnel.Endpoint, with With) (Put, error)
	// RemoveEndpoint forgets an endpoint that was marked as deleted, once nothing waits for it; before that it is
	// grapnel.CodeConflict. Its deliveries stay in the history.
	RemoveEndpoint(ctx context.Context, id string) error
	// PutSource creates the source (Revision 0) or replaces the one that has this Revision, as PutEndpoint does; a name that the tenant already
	// uses for a source is grapnel.CodeConflict.
	PutSource(ctx context.Context, scope Scope, src grapnel.Source, with With) (Put, error)
	// DeleteSource forgets a source; grapnel.CodeNotFound when it is not in scope. What it took in stays, and so does what that is known by.
	// It returns no revision.
	DeleteSource(ctx context.Context, scope Scope, id string, with With) (Put, error)
	// PutPolicy creates or replaces a named policy; a name that the tenant already uses is grapnel.CodeConflict. It counts
	// revisions and asks for none.
	PutPolicy(ctx context.Context, scope Scope, p grapnel.NamedPolicy, with With) (Put, error)
	// DeletePolicy and DeleteKey take no notice of With.Once and With.Tell: there is room for them
	// on a full disk, too.
	DeletePolicy(ctx context.Context, scope Scope, id string, with With) error
	// PutKey creates an API key or, under the same id, replaces it.
	PutKey(ctx context.Context, scope Scope, k grapnel.Key, with With) (Put, error)
	DeleteKey(ctx context.Context, scope Scope, id string, with With) error
	// Recall returns the stored answer of an idempotency key that has not expired at the given time, or nil.
	Recall(ctx context.Context, key string, now time.Time) (*Answer, error)
	// Remember stores an answer on its own, for calls whose effect is idempotent by itself. The first answer stays.
	Remember(ctx context.Context, once *Once) error
	// Forget deletes at most limit answers that have expired, those first that expired first, and returns how many.
	Forget(ctx context.Context, now time.Time, limit int) (int, error)
}

// Config is all configuration at one version. Its lists are sorted by id.
type Config struct {
	Version   int64              // 1 or more, so a batch that forgot its version is stale
	Endpoints []grapnel.Endpoint // those marked as deleted included
	Sources   []grapnel.Source
	Policies  []grapnel.NamedPolicy
	Keys      []grapnel.Key
	Tenancies []grapnel.Tenancy // sorted by tenant; those of whom nothing is known are not in it
	Newest    int64             // the highest number of any delivery so far
}

// ConfigChanges are the differences between two versions of the configuration.
type ConfigChanges struct {
	Version, Newest int64 // as in Config, of the later one
	Endpoints       Edits[grapnel.Endpoint]
	Sources         Edits[grapnel.Source]
	Policies        Edits[grapnel.NamedPolicy]
	Keys            Edits[grapnel.Key]
	Tenancies       []grapnel.Tenancy // all of them, as in Config; nil: they are as they were
}

// Edits are the differences between two lists that are sorted by id.
type Edits[T any] struct {
	Written []T      // created or replaced, as they are in the later list, sorted by id
	Removed []string // ids, sorted
}

// Merge returns the later list. The earlier one stays as it is, and is returned if there are no differences.
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
			// Up to the next difference everything is copied at once: lists are long and differences few.
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

// With is what is committed together with a write.
type With struct {
	Once  *Once
	Tell  *Batch              // events; its Config is the version before the write, another one is ErrStale. Its Once means nothing
	Audit *grapnel.AuditEntry //
}

// Put is the result of a configuration write.
type Put struct {
	Revision int64
	Version  int64
	Answer   *Answer   // see Accepted.Answer
	Told     *Accepted // what With.Tell did
}

// Once makes a call happen once for an idempotency key: the answer is stored in the same transaction as the effect.
// A key that is there already with the same fingerprint stops the call, which returns the stored answer; with another
// fingerprint it is grapnel.CodeMismatch.
type Once struct {
	Key         string    // API key id and idempotency key, joined
	Fingerprint [32]byte  // of method, path and body
	Expires     time.Time // from this instant on the answer does not count
	// Answer makes the answer to store. It runs inside the transaction, so it must not call the store. done is the result
	// about to be returned (Accepted, Redelivered or Put); Remember has none. The store sets the answer's Fingerprint.
	Answer func(done any) Answer
	Now    time.Time // answers that have expired by now do not count
}

// Answer is a stored answer to an HTTP request.
type Answer struct {
	Fingerprint [32]byte
	Status      int
	Body        []byte
}
