package sqlite

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/policy"
)

var historySize = flag.Int("history", 200_000, "how many deliveries are over in BenchmarkHistory")

// BenchmarkHistory measures lists of deliveries, the slowest of twenty pages each, with a number of
// finished deliveries of 20 endpoints of two tenants, of which one in 50 has failed. It tries
// filters that match many, few, and none.
//
//	go test ./internal/store/sqlite -run '^$' -bench History -benchtime 1x -history 10000000
func BenchmarkHistory(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	pile(b, s, *historySize)
	b.Logf("%d deliveries after %v", *historySize, time.Since(began))
	failed := []grapnel.Status{grapnel.Failed}
	for _, c := range []struct {
		name string
		q    store.DeliveryQuery
	}{
		{"all", store.DeliveryQuery{}},
		{"endpoint", store.DeliveryQuery{Endpoint: "ep_3"}},
		{"failed", store.DeliveryQuery{Status: failed}},
		{"failed-of-endpoint", store.DeliveryQuery{Status: failed, Endpoint: "ep_3"}},
		{"dead-letters", store.DeliveryQuery{DeadLetters: true}},
		{"skipped", store.DeliveryQuery{Status: []grapnel.Status{grapnel.Skipped}}},
		{"class-frequent", store.DeliveryQuery{Class: policy.ClassStatus5xx}},
		{"class-rare", store.DeliveryQuery{Class: policy.ClassDNS}},
		{"class-rare-of-endpoint", store.DeliveryQuery{Class: policy.ClassDNS, Endpoint: "ep_0"}},
		{"class-none-there", store.DeliveryQuery{Class: policy.ClassTLS}},
		{"class-none-failed", store.DeliveryQuery{Class: policy.ClassNone, Status: failed}},
		{"code-200", store.DeliveryQuery{StatusCode: 200}},
		{"code-200-never-there", store.DeliveryQuery{StatusCode: 200, Endpoint: "ep_7"}},
		{"code-204", store.DeliveryQuery{StatusCode: 204}},
		{"code-rare", store.DeliveryQuery{StatusCode: 202}},
		{"code-none-there", store.DeliveryQuery{StatusCode: 418}},
		{"reason-frequent", store.DeliveryQuery{ReasonCode: grapnel.ReasonExhausted}},
		{"reason-rare", store.DeliveryQuery{ReasonCode: grapnel.ReasonExpired}},
		{"type-frequent", store.DeliveryQuery{Type: "order.*"}},
		{"type-rare", store.DeliveryQuery{Type: "rare.one"}},
		{"type-frequent-failed", store.DeliveryQuery{Type: "order.*", Status: failed}},
		{"type-frequent-skipped", store.DeliveryQuery{Type: "order.*", Status: []grapnel.Status{grapnel.Skipped}}},
		{"type-rare-failed", store.DeliveryQuery{Type: "rare.one", Status: failed}},
		{"key", store.DeliveryQuery{Key: "key_77"}},
		{"key-none-there", store.DeliveryQuery{Key: "absent"}},
		{"key-failed", store.DeliveryQuery{Key: "key_77", Status: failed}},
		{"old-failed", store.DeliveryQuery{Status: failed, To: time.UnixMicro(3600e6 * 2)}},
	} {
		for _, scope := range []struct {
			name string
			of   store.Scope
		}{{"", store.Everyone()}, {"-of-tenant", store.Of("acme")}} {
			b.Run(c.name+scope.name, func(b *testing.B) {
				for range b.N {
					var took []time.Duration
					q, shown := c.q, 0
					for q.Limit = 50; len(took) < 20; {
						began := time.Now()
						page, err := s.DeliveryList(b.Context(), scope.of, q)
						if err != nil {
							b.Fatal(err)
						}
						took = append(took, time.Since(began))
						if shown += len(page); len(page) == 0 {
							break
						}
						q.Before = page[len(page)-1].Seq
					}
					b.ReportMetric(slices.Max(took).Seconds()*1000, "ms-slowest")
					b.ReportMetric(float64(shown), "shown")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
	for name, source := range map[string]string{"rare": "src_1", "none-there": "src_2"} {
		b.Run("events-of-source-"+name, func(b *testing.B) {
			for range b.N {
				began := time.Now()
				page, err := s.EventList(b.Context(), store.Everyone(), store.EventQuery{Source: source, Limit: 50})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(began).Seconds()*1000, "ms")
				b.ReportMetric(float64(len(page)), "shown")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
	for _, c := range []struct {
		name      string
		selection grapnel.Selection
	}{
		{"failed", grapnel.Selection{}},
		{"key", grapnel.Selection{Keys: []string{"key_21"}, Status: []grapnel.Status{grapnel.Delivered}}},
		{"hour", grapnel.Selection{From: time.UnixMicro(3600e6), To: time.UnixMicro(3600e6 + 60e6)}},
		{"type-rare", grapnel.Selection{Types: []string{"rare.one"}, Status: []grapnel.Status{grapnel.Delivered}}},
	} {
		b.Run("candidates-"+c.name, func(b *testing.B) {
			for range b.N {
				q, found, calls, slowest := store.CandidateQuery{Endpoint: "ep_1", Selection: c.selection, OverBy: time.Now(),
					Limit: 500}, 0, 0, time.Duration(0)
				began := time.Now()
				for more := true; more; calls++ {
					from := time.Now()
					list, resume, err := s.Candidates(b.Context(), store.Everyone(), q)
					if err != nil {
						b.Fatal(err)
					}
					found, slowest, q.After, more = found+len(list), max(slowest, time.Since(from)), resume, resume > 0
				}
				b.ReportMetric(time.Since(began).Seconds()*1000, "ms")
				b.ReportMetric(slowest.Seconds()*1000, "ms-slowest")
				b.ReportMetric(float64(calls), "calls")
				b.ReportMetric(float64(found), "found")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// pile writes n events with a finished delivery each, 100,000 in one transaction.
func pile(b *testing.B, s *Store, n int) {
	b.Helper()
	attempt := func(code int, class policy.Class) string {
		return fmt.Sprintf("X'%x'", codec.EncodeAttempt(&grapnel.Attempt{Number: 1, Trigger: grapnel.TriggerSchedule, StatusCode: code,
			Class:     class,
			StartedAt: time.UnixMicro(1), Duration: time.Second, ResponseHeaders: map[string]string{"server": "x"}}))
	}
	outcome := func(code int, class policy.Class, reason grapnel.ReasonCode) int64 {
		return withReason(outcomeOf(grapnel.Last{StatusCode: code, Class: class}), reason)
	}
	kinds := []struct {
		when   string
		status grapnel.Status
		reason grapnel.ReasonCode
		code   int
		class  policy.Class
	}{
		{"n % 100003 = 1", grapnel.Failed, grapnel.ReasonExpired, 0, policy.ClassDNS},
		{"n % 30011 = 1", grapnel.Skipped, grapnel.ReasonNone, 503, policy.ClassStatus5xx},
		{"n % 100 = 1", grapnel.Failed, grapnel.ReasonExhausted, 503, policy.ClassStatus5xx},
		{"n % 100 = 51", grapnel.Failed, grapnel.ReasonExhausted, 0, policy.ClassTimeout},
		{"n % 500009 = 1", grapnel.Delivered, grapnel.ReasonNone, 202, policy.ClassNone},
		{"n % 20 = 7", grapnel.Delivered, grapnel.ReasonNone, 204, policy.ClassNone},
		{"1", grapnel.Delivered, grapnel.ReasonNone, 200, policy.ClassNone},
	}
	var status, reason, last, outcomes string
	for _, k := range kinds {
		st, _ := rows.Statuses.Place(k.status)
		re, _ := rows.ReasonCodes.Place(k.reason)
		status += fmt.Sprintf(" WHEN %s THEN %d", k.when, st)
		reason += fmt.Sprintf(" WHEN %s THEN %d", k.when, re)
		last += fmt.Sprintf(" WHEN %s THEN %s", k.when, attempt(k.code, k.class))
		outcomes += fmt.Sprintf(" WHEN %s THEN %d", k.when, outcome(k.code, k.class, k.reason))
	}
	err := s.write(b.Context(), &change{do: func(t *tx) error {
		return t.conn.Exec(`INSERT INTO tenant VALUES (1, 'acme'), (2, 'bolt');
			INSERT INTO kind VALUES (1, 'acme', 'order.paid', ''), (2, 'bolt', 'order.paid', ''), (3, 'acme', 'rare.one', 'src_1'), (4, 'bolt', 'thing.done', '');
			WITH RECURSIVE i(n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM i WHERE n < 19) INSERT INTO target SELECT n + 1, 'ep_' || n FROM i`)
	}})
	if err == nil {
		err = s.write(b.Context(), &change{do: func(t *tx) error {
			if err := t.conn.Exec("CREATE TEMP TABLE hash (n INTEGER PRIMARY KEY, hash INTEGER)"); err != nil {
				return err
			}
			q, err := t.conn.Prepare("INSERT INTO hash VALUES (?, ?)")
			for n := range int64(100_000) {
				if err == nil {
					err = q.Int(n).Int(keyHash(fmt.Sprint("key_", n))).Run()
				}
			}
			return err
		}})
	}
	const step = 100_000
	for from := 1; from <= n && err == nil; from += step {
		err = s.write(b.Context(), &change{do: func(t *tx) error {
			t.events.last, t.deliveries.last = int64(from+step), int64(from+step)
			return t.conn.Exec(fmt.Sprintf(`CREATE TEMP TABLE i AS WITH RECURSIVE i(n) AS (VALUES (%[1]d) UNION ALL SELECT n + 1 FROM i WHERE n < %[2]d)
				SELECT n FROM i;
				INSERT INTO event SELECT n, 'evt_' || n, CASE WHEN n %% 60001 = 0 THEN 3 WHEN n %% 2 = 1 AND n %% 3 = 0 THEN 4 ELSE 1 + n %% 2 END,
					'key_' || (n %% 100000), (SELECT hash FROM hash h WHERE h.n = i.n %% 100000), n * 10000, n * 10000, n, 1, NULL, NULL, 0, 0, zeroblob(200), NULL FROM i;
				INSERT INTO finished (seq, target, event, tenant, status, position, attempts, created, finished, replay_of, code, reason, last, outcome)
					SELECT n, 1 + n %% 20, n, 1 + n %% 2, CASE%[3]s END, 0, 1, n * 10000, n * 10000 + 1000, 0, CASE%[4]s END, 'why', CASE%[5]s END,
					CASE%[6]s END FROM i;
				INSERT INTO letter SELECT target, seq, tenant FROM finished WHERE status = 4 AND status <> 3 AND seq BETWEEN %[1]d AND %[2]d;
				INSERT OR IGNORE INTO delivered_outcome SELECT DISTINCT outcome, seq >> 12 FROM finished WHERE status = 3 AND seq >= %[1]d;
				INSERT OR IGNORE INTO target_outcome SELECT DISTINCT outcome, target FROM finished WHERE status = 3 AND seq >= %[1]d;
				INSERT OR REPLACE INTO hour SELECT n / 360000, min(ifnull(h.first, n), min(n)), max(n) | 4095 FROM i LEFT JOIN hour h ON h.hour = n / 360000
					GROUP BY n / 360000;
				DROP TABLE i`, from, min(from+step-1, n), status, reason, last, outcomes))
		}})
	}
	if err == nil {
		err = s.write(b.Context(), &change{do: func(t *tx) error {
			return t.conn.Exec("INSERT INTO tally (target, tenant, status, n) " +
				"SELECT target, tenant, status, count(*) FROM finished GROUP BY 1, 2, 3")
		}})
	}
	// Lists of events verify them; the source's events are in order.
	for seq := int64(60001); seq <= int64(n) && err == nil; seq += 60001 {
		at := time.UnixMicro(seq * 10000)
		e := &grapnel.Event{ID: fmt.Sprint("evt_", seq), Tenant: "acme", Type: "rare.one", Key: fmt.Sprint("key_", seq%100000), Source: "src_1",
			ContentType: grapnel.JSONType, Data: make([]byte, 200), OccurredAt: at, AcceptedAt: at}
		err = s.write(b.Context(), &change{do: func(t *tx) error {
			return errors.Join(t.cameIn(e.Source, seq), t.conn.Exec(fmt.Sprintf("UPDATE event SET sum = %d WHERE seq = %d", codec.Sum(e), seq)))
		}})
	}
	if err != nil {
		b.Fatal(err)
	}
}
