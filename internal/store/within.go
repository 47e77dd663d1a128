package store

import "context"

// Within makes a read that must end with its context, because the caller holds a lock: it returns
// when ctx ends, even if the store ignores ctx. The read then ends in the background.
func Within[T any](ctx context.Context, read func() (T, error)) (is T, err error) {
	type answer struct {
		is  T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		is, err := read()
		done <- answer{is, err}
	}()
	select {
	case a := <-done:
		return a.is, a.err
	case <-ctx.Done():
		return is, ctx.Err()
	}
}
