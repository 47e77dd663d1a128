package configuration

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// surroundings are the engine and the other nodes around a book.
type surroundings struct {
	settled   int // number of applied snapshots
	confirmed int
	refuses   error // returned by Settle
	woken     []string
}

func open(t *testing.T, s store.Configuration, o *surroundings) *Book {
	t.Helper()
	b := NewBook(Options{Store: s, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Settle: func(_ context.Context, before, now *Snapshot) ([]string, error) {
			if o.refuses != nil {
				return nil, o.refuses
			}
			o.settled++
			_, _, queues := now.Differs(before)
			return queues, nil
		},
		WakeQueues: func(queues []string) { o.woken = append(o.woken, queues...) },
		Confirm:    func(context.Context) error { o.confirmed++; return nil },
		Reading:    context.WithCancel,
		Current:    func() error { return nil },
	})
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func key(id string, scopes ...grapnel.Scope) grapnel.Key {
	return grapnel.Key{ID: id, Hash: [32]byte{1}, Scopes: scopes}
}

// TestAChangeIsKnownWhenItIsAnswered: an answered change is in memory, in the engine, and at other
// nodes.
func TestAChangeIsKnownWhenItIsAnswered(t *testing.T) {
	var o surroundings
	b, everyone := open(t, memory.New(), &o), store.Everyone()
	if _, err := b.PutKey(t.Context(), everyone, key("key_1", grapnel.ScopeRead), store.With{}); err != nil {
		t.Fatal(err)
	}
	if _, known := b.KeyByHash([32]byte{1}); !known || o.settled != 1 || o.confirmed != 1 || b.Settled() != b.Snapshot() {
		t.Errorf("after a change: known %v, settled %d times, confirmed %d times", known, o.settled, o.confirmed)
	}
}

// TestAnAnswerGivenAgainIsConfirmed: a change that another node made by the same idempotency key,
// and does not have confirmed yet, is known here and confirmed before its answer is given again.
func TestAnAnswerGivenAgainIsConfirmed(t *testing.T) {
	var o surroundings
	s := memory.New()
	b, other := open(t, s, &o), open(t, s, &surroundings{})
	with := func() store.With {
		return store.With{Once: &store.Once{Key: "key_0/a", Now: time.Now(), Expires: time.Now().Add(time.Hour),
			Answer: func(any) store.Answer { return store.Answer{Status: 201} }}}
	}
	if _, err := other.PutKey(t.Context(), store.Everyone(), key("key_1", grapnel.ScopeRead), with()); err != nil {
		t.Fatal(err)
	}
	put, err := b.PutKey(t.Context(), store.Everyone(), key("key_1", grapnel.ScopeRead), with())
	if _, known := b.KeyByHash([32]byte{1}); err != nil || put.Answer == nil || !known || o.confirmed != 1 {
		t.Errorf("answered %+v, %v: known %v, confirmed %d times", put.Answer, err, known, o.confirmed)
	}
}

// TestAKeyEndsItsCalls: calls that a key may no longer make have ended before the change of the key
// is answered.
func TestAKeyEndsItsCalls(t *testing.T) {
	var o surroundings
	b, everyone := open(t, memory.New(), &o), store.Everyone()
	may := func(k *grapnel.Key) bool { return k.May(grapnel.ScopeConsume) }
	if _, err := b.PutKey(t.Context(), everyone, key("key_1", grapnel.ScopeConsume), store.With{}); err != nil {
		t.Fatal(err)
	}
	ctx, release := b.WhileKey(t.Context(), [32]byte{1}, may)
	defer release()
	if ctx.Err() != nil {
		t.Fatal("the call ended while its key may make it")
	}
	if _, err := b.PutKey(t.Context(), everyone, key("key_1", grapnel.ScopeRead), store.With{}); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Error("the call goes on after its key lost the scope")
	}
	late, release := b.WhileKey(t.Context(), [32]byte{1}, may)
	defer release()
	if late.Err() == nil {
		t.Error("a call began after its key had lost the scope")
	}
}

// TestAChangedKeyIsTheOneInTheStore: a key that is renamed keeps the scopes that another node has
// given it meanwhile, and one that another node has revoked stays revoked.
func TestAChangedKeyIsTheOneInTheStore(t *testing.T) {
	s, everyone := memory.New(), store.Everyone()
	here := open(t, s, new(surroundings))
	if _, err := here.PutKey(t.Context(), everyone, key("key_1", grapnel.ScopeAdmin), store.With{}); err != nil {
		t.Fatal(err)
	}
	there := open(t, s, new(surroundings))
	rename := func(k *grapnel.Key) (*grapnel.AuditEntry, error) {
		k.Name = "renamed"
		return nil, nil
	}
	if _, err := there.PutKey(t.Context(), everyone, key("key_1", grapnel.ScopeRead), store.With{}); err != nil {
		t.Fatal(err)
	}
	if k, err := here.ChangeKey(t.Context(), everyone, "key_1", rename); err != nil || k.Name != "renamed" || k.May(grapnel.ScopeAdmin) {
		t.Errorf("the key is %+v, %v", k, err)
	}
	if err := there.DeleteKey(t.Context(), everyone, "key_1", store.With{}); err != nil {
		t.Fatal(err)
	}
	if _, err := here.ChangeKey(t.Context(), everyone, "key_1", rename); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Errorf("a revoked key was changed: %v", err)
	}
	if _, known := here.KeyByHash([32]byte{1}); known {
		t.Error("a revoked key is valid again")
	}
}

// TestAKeyThatIsBeingRevokedStaysRevoked: its change waits for the revocation, and finds no key.
func TestAKeyThatIsBeingRevokedStaysRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		revoking := make(chan struct{})
		s := &slowRevoking{memory.New(), revoking}
		b, everyone := open(t, s, new(surroundings)), store.Everyone()
		if _, err := b.PutKey(t.Context(), everyone, key("key_1", grapnel.ScopeAdmin), store.With{}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := b.DeleteKey(t.Context(), everyone, "key_1", store.With{}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			unchanged := func(*grapnel.Key) (*grapnel.AuditEntry, error) { return nil, nil }
			if _, err := b.ChangeKey(t.Context(), everyone, "key_1", unchanged); grapnel.CodeOf(err) != grapnel.CodeNotFound {
				t.Errorf("the change was answered %v", err)
			}
		})
		synctest.Wait()
		close(revoking)
		all.Wait()
		if _, known := b.KeyByHash([32]byte{1}); known {
			t.Error("the key is valid")
		}
	})
}

// slowRevoking commits the revocation of a key once commit is closed.
type slowRevoking struct {
	*memory.Store
	commit chan struct{}
}

func (s *slowRevoking) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	<-s.commit
	return s.Store.DeleteKey(ctx, scope, id, with)
}

// TestALostAnswerIsMadeUpFor: the store commits a change and its answer is lost. The caller gets an
// unknown outcome, and the book has the change.
func TestALostAnswerIsMadeUpFor(t *testing.T) {
	var o surroundings
	lost := errors.New("lost")
	s := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
		if method == "PutKey" {
			return memory.Fault{Err: lost, Applied: true}
		}
		return memory.Fault{}
	}}
	b := open(t, s, &o)
	if _, err := b.PutKey(t.Context(), store.Everyone(), key("key_1"), store.With{}); !errors.Is(err, lost) {
		t.Fatalf("answered %v", err)
	}
	if _, known := b.KeyByHash([32]byte{1}); !known {
		t.Error("a change that was committed is not known")
	}
}

// TestSettlingIsMadeUpFor: if the engine cannot apply a change, the next caller makes it try again.
func TestSettlingIsMadeUpFor(t *testing.T) {
	var o surroundings
	b, everyone := open(t, memory.New(), &o), store.Everyone()
	o.refuses = errors.New("busy")
	if _, err := b.PutKey(t.Context(), everyone, key("key_1"), store.With{}); !errors.Is(err, o.refuses) {
		t.Fatalf("answered %v", err)
	}
	if b.Settled() == b.Snapshot() {
		t.Fatal("settled although it was refused")
	}
	o.refuses = nil
	if err := b.CatchUp(t.Context()); err != nil || o.settled != 1 || b.Settled() != b.Snapshot() {
		t.Errorf("caught up: %v, settled %d times", err, o.settled)
	}
}

// TestALockIsNotWaitedForLongerThanItsCaller: while a long change holds the lock, a caller
// that gives up changes nothing.
func TestALockIsNotWaitedForLongerThanItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o surroundings
		b := open(t, memory.New(), &o)
		if err := b.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.PutKey(ctx, store.Everyone(), key("key_1"), store.With{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("answered %v", err)
		}
		_, terms := b.ChangeTerms(ctx, store.Everyone(), "acme", func(*grapnel.Terms) (*grapnel.AuditEntry, error) { return nil, nil })
		_, _, made := b.CreateTerms(ctx, store.Everyone(), "acme", func(*grapnel.Terms) (store.With, error) { return store.With{}, nil })
		_, sender := b.ChangeSender(ctx, func(*grapnel.Sender) (*grapnel.AuditEntry, error) { return nil, nil })
		_, portal := b.ChangePortal(ctx, store.Everyone(), "acme", func(*grapnel.Portal) (*grapnel.AuditEntry, error) { return nil, nil })
		for what, err := range map[string]error{"terms": terms, "new terms": made, "sender": sender, "portal": portal} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: answered %v", what, err)
			}
		}
		b.Unlock()
		if n := len(b.Keys(store.Everyone())); n != 0 {
			t.Errorf("%d keys were made", n)
		}
	})
}

// unreadable is a store whose configuration cannot be read once it was written.
type unreadable struct {
	store.Configuration
	wrote bool
}

func (u *unreadable) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	u.wrote = true
	return u.Configuration.PutKey(ctx, scope, k, with)
}

func (u *unreadable) Version(ctx context.Context) (version, newest int64, err error) {
	if u.wrote {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	return u.Configuration.Version(ctx)
}

func (u *unreadable) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	if u.wrote {
		<-ctx.Done()
		return store.ConfigChanges{}, false, ctx.Err()
	}
	return u.Configuration.Changes(ctx, since)
}

// TestAChangeThatCannotBeReadMayBeDone: the database answers no more after a change. The caller
// learns that the change may have been made; after one that was refused, that it can be repeated.
func TestAChangeThatCannotBeReadMayBeDone(t *testing.T) {
	for name, code := range map[string]grapnel.Code{"committed": "", "refused": grapnel.CodeUnavailable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := open(t, &unreadable{Configuration: memory.New()}, new(surroundings))
				b.o.Reading = func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeout(ctx, time.Second)
				}
				scope := store.Everyone()
				if code != "" {
					scope = store.Of("other")
				}
				_, err := b.PutKey(t.Context(), scope, key("key_1", grapnel.ScopeRead), store.With{})
				if errors.Is(err, store.ErrUnknown) != (code == "") || grapnel.CodeOf(err) != code {
					t.Errorf("the change is answered %v", err)
				}
			})
		})
	}
}
