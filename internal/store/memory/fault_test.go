package memory_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

var errFault = errors.New("the disk is on fire")

// callAll makes every call of the contract but Close with zero arguments, and passes on the
// results.
func callAll(t *testing.T, s store.Store, each func(method string, results []reflect.Value)) {
	t.Helper()
	methods := reflect.TypeFor[store.Store]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		if m.Name == "Close" || m.Name == "IDs" { // these ask nothing
			continue
		}
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for j := 1; j < m.Type.NumIn(); j++ {
			arg := reflect.Zero(m.Type.In(j))
			if m.Name == "Remember" {
				arg = reflect.ValueOf(&store.Once{Answer: func(any) store.Answer { return store.Answer{} }})
			}
			args = append(args, arg)
		}
		each(m.Name, reflect.ValueOf(s).MethodByName(m.Name).Call(args))
	}
}

func TestFaultyFailsEveryCall(t *testing.T) {
	var asked string
	faulty := &memory.Faulty{Injure: func(method string) memory.Fault { // no store: a call that goes through panics
		asked = method
		return memory.Fault{Err: errFault}
	}}
	callAll(t, faulty, func(method string, results []reflect.Value) {
		if asked != method {
			t.Errorf("%s asked about %s", method, asked)
		}
		last := len(results) - 1
		if err, _ := results[last].Interface().(error); !errors.Is(err, errFault) {
			t.Errorf("%s returned %v", method, err)
		}
		for _, r := range results[:last] {
			if !r.IsZero() {
				t.Errorf("%s returned %v beside its error", method, r)
			}
		}
	})
}

func TestFaultyPassesEveryCallThrough(t *testing.T) {
	var direct [][]any
	collect := func(_ string, results []reflect.Value) {
		var values []any
		for _, r := range results {
			values = append(values, r.Interface())
		}
		direct = append(direct, values)
	}
	callAll(t, memory.New(), collect)
	callAll(t, &memory.Faulty{Store: memory.New(), Injure: func(string) memory.Fault { return memory.Fault{} }}, collect)
	half := len(direct) / 2
	if !reflect.DeepEqual(direct[:half], direct[half:]) {
		t.Errorf("through Faulty the store answers\n%v\nwant\n%v", direct[half:], direct[:half])
	}
}

func TestFaultyAppliesWhatItSaysFailed(t *testing.T) {
	ctx := context.Background()
	var fault memory.Fault
	s := &memory.Faulty{Store: memory.New(), Injure: func(string) memory.Fault { return fault }}
	e := &grapnel.Event{ID: "a", Tenant: "acme", Type: "t", AcceptedAt: time.Unix(1, 0)}
	batch := store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}}}

	fault = memory.Fault{Err: errFault}
	if done, err := s.Append(ctx, batch); !errors.Is(err, errFault) || done.Events != nil {
		t.Fatalf("got %+v, %v", done, err)
	}
	fault = memory.Fault{Err: errFault, Applied: true}
	if done, err := s.Append(ctx, batch); !errors.Is(err, errFault) || done.Events != nil {
		t.Fatalf("got %+v, %v", done, err)
	}
	stale := batch
	stale.Config = 7
	if _, err := s.Append(ctx, stale); !errors.Is(err, store.ErrStale) {
		t.Fatalf("a call without effect returned %v: there was nothing to be unknown", err)
	}
	fault = memory.Fault{}
	done, err := s.Append(ctx, batch)
	if err != nil || !done.Events[0].Duplicate || done.Events[0].Seq != 1 || len(done.Heads) != 0 {
		t.Fatalf("the call that failed before its effect had one, or the other had none: %+v, %v", done, err)
	}
}

func TestCallsOfAContextThatIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := memory.New()
	e := &grapnel.Event{ID: "a", Tenant: "acme", Type: "t", AcceptedAt: time.Unix(1, 0)}
	if _, err := s.Append(ctx, store.Batch{Config: 1, Events: []store.Incoming{{Event: e}}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, _, err := s.Event(t.Context(), store.Everyone(), "", "a"); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Fatalf("the event is there: %v", err)
	}
}
