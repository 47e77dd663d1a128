package postgres

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// BenchmarkMove measures copying a tenant to another database of the same server, and erasing it in
// the first. One iteration is an event of 1 KiB with a delivery finished at its first attempt. The
// server syncs to a disk.
//
//	go test ./internal/store/postgres -run '^$' -bench Move -benchtime 1000000x
func BenchmarkMove(b *testing.B) {
	own, err := pgtest.Start(b.Context(), pgtest.Options{Parent: os.TempDir(), Settings: map[string]string{"shared_buffers": "256MB",
		"max_wal_size": "4GB"}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = own.Stop() }()
	b.Run("Grapnel's ids", func(b *testing.B) { benchmarkMove(b, own, firstID(dayAt(time.Now().UnixMicro()))) })
	b.Run("publishers' ids", func(b *testing.B) { benchmarkMove(b, own, "order-") })
}

// benchmarkMove moves events whose ids have a given prefix.
func benchmarkMove(b *testing.B, own *pgtest.Server, ids string) {
	b.Helper()
	var s [2]*Store
	for i, name := range []string{"a", "b"} {
		url, err := own.Create(b.Context(), fmt.Sprint(name, ids, b.N))
		if err != nil {
			b.Fatal(err)
		}
		if s[i], err = Open(b.Context(), url, Options{}); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = s[i].Close() }()
	}
	put := func(state, from grapnel.TenancyState) {
		b.Helper()
		if _, err := s[0].PutTenancy(b.Context(), grapnel.Tenancy{Tenant: "acme", State: state, Move: "m", Other: "b"}, from, nil); err != nil {
			b.Fatal(err)
		}
	}
	body := codec.EncodeAttempt(deliver(store.Head{}).Attempt)
	err := pgx.BeginFunc(b.Context(), s[0].pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"INSERT INTO target (endpoint, shard) SELECT 'ep_' || n, 0 FROM generate_series(1, 10) n",
			"INSERT INTO kind (tenant, type, source) VALUES ('acme', 'invoice.paid', '')",
			fmt.Sprintf(`INSERT INTO event SELECT number + n, '%s' || lpad(n::text, 16, '0'), (SELECT number FROM kind), 'key' || n %% 1000, 0, 0, number + n, number + n, 1, 'application/json', 0, 0, NULL,
				convert_to(repeat(md5(n::text), 32), 'UTF8'), NULL FROM generate_series(1, %d) n, (SELECT last_value AS number FROM event_number) s`, ids, b.N),
			fmt.Sprintf(`INSERT INTO finished SELECT number + n, (SELECT min(number) FROM target) + n %% 10, number + n, (SELECT number FROM kind), 0, 0, 0, 1, 0, 1000000, 1, 200, 'delivered', '', '', '',
				'\x%x' FROM generate_series(1, %d) n, (SELECT last_value AS number FROM event_number) s`, body, b.N),
			fmt.Sprintf(`INSERT INTO tally SELECT number, 'acme', 0, %d, 0, %[1]d, 0, 0, 0, 0 FROM target`, b.N/10),
			fmt.Sprintf("SELECT setval('event_number', last_value + %d), setval('delivery_number', last_value + %[1]d) FROM event_number", b.N),
		} {
			if _, err := tx.Exec(b.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s[0].pool.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	put(grapnel.TenancySealed, grapnel.TenancyHere)
	b.ResetTimer()
	done, err := s[1].Import(b.Context(), s[0], grapnel.Tenancy{Tenant: "acme", Move: "m", Other: "a"}, nil)
	if err != nil || done.Over != int64(b.N) {
		b.Fatal(done, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
	b.StopTimer()
	put(grapnel.TenancyGone, grapnel.TenancySealed)
	began := s[0].now()
	for n := 1; n > 0; {
		if n, err = s[0].Erase(b.Context(), "acme", 500); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/s[0].now().Sub(began).Seconds(), "erased/s")
}
