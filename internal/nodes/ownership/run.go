package ownership

import "sync"

// Run takes, renews and releases shards until the engine stops.
func (s *Shards) Run() {
	if s == nil {
		return
	}
	var loops sync.WaitGroup
	loops.Go(s.keep)
	loops.Go(s.guard)
	loops.Go(s.watch)
	loops.Wait()
}
