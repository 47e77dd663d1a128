package queue

import "context"

// Run sweeps until ctx ends. Then it answers every waiter with no lease and stops claiming; leases
// can still be settled. It returns when every dispatcher has returned.
func (r *Broker) Run(ctx context.Context) {
	r.sweepUntil(ctx)
	// begin checks r.ctx under the same lock, so no dispatcher starts from here on.
	r.door.Lock()
	r.close()
	r.door.Unlock()
	r.work.Wait()
}
