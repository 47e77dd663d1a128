package sqlstore

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// TestTransactionsOfOneProcessTakeTurns: transactions that begin while one runs have their turns as
// soon as it ends. SQLite alone lets each of them sleep for up to 100 ms and try again.
func TestTransactionsOfOneProcessTakeTurns(t *testing.T) {
	db := sqlite(t)
	s := ready(t, db, SQLite)
	const copies, each = 20, 10 * time.Millisecond
	var all sync.WaitGroup
	for n := range copies {
		all.Go(func() {
			now := time.Now()
			bid := receive.Bid{Key: receive.Key{Source: "acme", ID: fmt.Sprint(n)}, Owner: "a", Now: now, LeaseUntil: now, KeepUntil: now}
			_, err := s.Transact(t.Context(), bid, time.Minute, func(tx *sql.Tx, _ receive.Claim) (receive.Outcome, error) {
				time.Sleep(each)
				_, err := tx.ExecContext(t.Context(), "insert into ledger values('x')")
				return receive.Processed, err
			})
			if err != nil {
				t.Error(err)
			}
			if inUse := db.Stats().InUse; inUse > 2 {
				t.Errorf("%d connections are in use by transactions of which one can run", inUse)
			}
		})
	}
	all.Wait()
	if n := effects(t, db); n != copies {
		t.Errorf("%d effects of %d events", n, copies)
	}
}
