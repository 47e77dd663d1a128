package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// dayOfBefore creates a day's tables as programs did before ids were unique by tenant.
const dayOfBefore = `
	CREATE TABLE event_%[1]s (LIKE event INCLUDING ALL);
	ALTER TABLE event_%[1]s ADD CONSTRAINT named CHECK (kind > 0);
	CREATE UNIQUE INDEX event_%[1]s_id ON event_%[1]s (id);
	CREATE TRIGGER named AFTER INSERT ON event_%[1]s FOR EACH ROW
		WHEN (NEW.id < '%[2]s' OR NEW.id >= '%[3]s') EXECUTE FUNCTION name_event();
	ALTER TABLE event ATTACH PARTITION event_%[1]s FOR VALUES FROM (%[4]d) TO (%[5]d);
	CREATE TABLE finished_%[1]s (LIKE finished INCLUDING ALL);
	ALTER TABLE finished_%[1]s ADD CONSTRAINT named CHECK (kind > 0 AND target > 0);
	ALTER TABLE finished ATTACH PARTITION finished_%[1]s FOR VALUES FROM (%[4]d) TO (%[5]d);
	CREATE TABLE attempt_%[1]s (LIKE attempt INCLUDING ALL);
	ALTER TABLE attempt ATTACH PARTITION attempt_%[1]s FOR VALUES FROM (%[4]d) TO (%[5]d);`

// past is a database as used before ids were unique by tenant, with a program of that version.
type past struct {
	*testing.T
	*pgx.Conn
	url   string
	today int64
}

// newPast creates tables for today and some days after it.
func newPast(t *testing.T, ahead int64) *past {
	t.Helper()
	p := &past{T: t, url: database(t)}
	on(t, p.url, func(conn *pgx.Conn) error { return migrate(t.Context(), conn, stepsUpTo(t, "ids_by_tenant")) })
	var err error
	if p.Conn, err = pgx.Connect(t.Context(), p.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(t.Context()) })
	p.today = dayAt(time.Now().UnixMicro())
	for day := p.today; day <= p.today+ahead; day++ {
		p.makes(day)
	}
	p.does(fmt.Sprintf("SELECT setval('event_number', %[1]d, false), setval('delivery_number', %[1]d, false)", begins(p.today)))
	p.does("INSERT INTO kind (tenant, type, source) VALUES ('acme', 'invoice.paid', ''), ('bolt', 'invoice.paid', '')")
	return p
}

func (p *past) makes(day int64) {
	p.Helper()
	of := dayOfTables(day)
	p.does(fmt.Sprintf(dayOfBefore, strings.TrimPrefix(tableOf("event", day), "event_"), of.from, of.to, begins(day), begins(day+1)))
}

func (p *past) does(sql string) {
	p.Helper()
	if _, err := p.Exec(p.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		p.Fatalf("%s: %v", sql, err)
	}
}

// publishes adds events of acme (kind 1) or bolt (kind 2), without data or deliveries.
func (p *past) publishes(kind int, ids ...string) error {
	for _, id := range ids {
		tenant := []string{1: "acme", 2: "bolt"}[kind]
		sum := codec.Sum(&grapnel.Event{ID: id, Tenant: tenant, Type: "invoice.paid", OccurredAt: at(1), AcceptedAt: at(1)})
		_, err := p.Exec(p.Context(), `INSERT INTO event
			(seq, id, kind, key, accepted, occurred, first, last, made, content_type, packed, sum)
			VALUES (nextval('event_number'), $1, $2, '', $3, $3, 0, 0, 0, '', 0, $4)`, id, kind, at(1).UnixMicro(), sum)
		if err != nil {
			return err
		}
	}
	return nil
}

// takes publishes an event without data. Its id may be in use by another tenant.
func (p *past) takes(s *Store, tenant, id, kind string, duplicate, conflict bool) {
	p.Helper()
	in := store.Incoming{Event: &grapnel.Event{ID: id, Tenant: tenant, Type: kind, OccurredAt: at(0), AcceptedAt: at(1)}}
	done, err := s.Append(p.Context(), store.Batch{Config: version(p.T, s), Events: []store.Incoming{in}})
	if err != nil {
		p.Errorf("%s of %s: %v", id, tenant, err)
	} else if is := done.Events[0]; is.Duplicate != duplicate || is.Conflict != conflict {
		p.Errorf("%s of %s: %+v", id, tenant, is)
	}
}

// TestIDsOfBefore: in a database in which ids were unique among all tenants, a tenant's ids stay
// its own, and another tenant may use them too, while an older program keeps using the database.
func TestIDsOfBefore(t *testing.T) {
	t.Parallel()
	p := newPast(t, 2)
	generated := grapnel.NewID(grapnel.EventPrefix, midnight(p.today).Add(time.Hour), strings.NewReader("0123456789"))
	if err := p.publishes(1, "own", generated); err != nil {
		t.Fatal(err)
	}
	plan, err := Inspect(t.Context(), p.url)
	if err != nil || len(plan.Steps) == 0 {
		t.Fatal(plan, err)
	}
	if step := plan.Steps[0]; step.Heavy || step.Cuts || step.About != "Event ids are unique in a tenant" {
		t.Errorf("what is said of the step: %+v", step)
	}
	s := nodesAt(t, p.url, 1)[0]
	if c := s.days.known.Load(); c.current != p.today+1 || !c.days[1].whose || c.days[0].whose {
		t.Errorf("days: %+v", c)
	}
	for _, id := range []string{"own", generated} {
		p.takes(s, "acme", id, "invoice.paid", true, false)
		p.takes(s, "acme", id, "invoice.sent", false, true)
		p.takes(s, "bolt", id, "invoice.paid", false, false)
		p.takes(s, "bolt", id, "invoice.paid", true, false)
		p.takes(s, "bolt", id, "invoice.sent", false, true)
		if e, _, err := s.Event(t.Context(), store.Everyone(), "acme", id); err != nil || e.Tenant != "acme" {
			t.Errorf("%s: %+v, %v", id, e, err)
		}
		if _, _, err := s.Event(t.Context(), store.Everyone(), "", id); !errors.Is(err, store.ErrSeveral) {
			t.Errorf("%s of anybody: %v", id, err)
		}
	}
	// The older program names no tenant. Its events belong to the tenant nevertheless, and are not
	// doubled.
	if err := p.publishes(1, "theirs"); err != nil {
		t.Error(err)
	}
	p.takes(s, "acme", "theirs", "invoice.paid", true, false)
	p.takes(s, "bolt", "theirs", "invoice.paid", false, false)
	for _, id := range []string{"theirs", generated} {
		if err := p.publishes(2, id); stateOf(err) != stateUnique {
			t.Errorf("%s, which bolt has used: %v", id, err)
		}
	}
	// The same holds in the days whose tables it creates.
	next := p.today + 2 + ahead
	p.makes(next)
	if err := s.begin(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := p.publishes(1, "later"); err != nil {
		t.Error(err)
	}
	p.takes(s, "bolt", "later", "invoice.paid", false, false)
	if err := p.publishes(2, "own"); stateOf(err) != stateUnique {
		t.Errorf("what bolt has used on an earlier day: %v", err)
	}
	// It may draw row ids from such a day only for a short time.
	last := next + 1 + ahead
	p.makes(last)
	p.does(fmt.Sprintf("SELECT setval('event_number', %[1]d, false), setval('delivery_number', %[1]d, false)", begins(last)))
	if err := p.publishes(2, "last"); err != nil {
		t.Error(err)
	}
	p.takes(s, "bolt", "last", "invoice.paid", true, false)
	for err := s.begin(t.Context(), last); err != nil; err = s.begin(t.Context(), last) { // a concurrent writer is preparing it
		if stateOf(err) != stateLocked {
			t.Fatal(err)
		}
	}
	p.takes(s, "acme", "last", "invoice.paid", false, false)
	if day := s.days.known.Load().current; day != last+1 {
		t.Errorf("numbers are of day %d, want %d", day, last+1)
	}
	var names int
	if err := p.QueryRow(t.Context(), "SELECT count(*) FROM event_named").Scan(&names); err != nil || names != 7 {
		t.Errorf("%d names, %v", names, err) // bolt's own; later, theirs and last of both
	}
	if n, err := s.Purge(t.Context(), store.Keep{Now: at(0).Add(100 * aDay), For: 30 * aDay, Slack: aDay}, 100); err != nil || n != 10 {
		t.Errorf("purged %d, %v", n, err)
	}
	if err := p.QueryRow(t.Context(), "SELECT count(*) FROM event_name").Scan(&names); err != nil || names != 0 {
		t.Errorf("%d names from before are left, %v", names, err)
	}
}

// TestIDsOfBeforeWithoutTomorrow: if no program has created the next day's tables, this one does.
func TestIDsOfBeforeWithoutTomorrow(t *testing.T) {
	t.Parallel()
	p := newPast(t, 0)
	if err := p.publishes(1, "own"); err != nil {
		t.Fatal(err)
	}
	s := nodesAt(t, p.url, 1)[0]
	if c := s.days.known.Load(); c.current != p.today+1 || !c.days[1].whose || c.days[0].whose {
		t.Errorf("days: %+v", c)
	}
	p.takes(s, "acme", "own", "invoice.paid", true, false)
	p.takes(s, "bolt", "own", "invoice.paid", false, false)
}

// TestDeliveryIDsOfBefore: deliveries created when ids contained their row ids in clear are found
// by those ids and by the new ones. So are deliveries that an older program creates meanwhile.
// Nodes of one database return the same ids, and another database has its own key.
func TestDeliveryIDsOfBefore(t *testing.T) {
	t.Parallel()
	url := database(t)
	on(t, url, func(conn *pgx.Conn) error {
		err := migrate(t.Context(), conn, stepsUpTo(t, "id_key"))
		if err == nil {
			_, err = conn.Exec(t.Context(), "SELECT setval('delivery_number', $1, false)", begins(20_000)+5)
		}
		return err
	})
	all := nodesAt(t, url, 2)
	a, b, other := all[0].IDs(), all[1].IDs(), nodes(t, 1)[0].IDs()
	if key := a.Key(); len(key.Secret) != 32 || !bytes.Equal(key.Secret, b.Key().Secret) || bytes.Equal(key.Secret, other.Key().Secret) ||
		key.Plain != begins(20_001)+5 || other.Key().Plain != 0 {
		t.Errorf("keys: plain up to %d and %d", key.Plain, other.Key().Plain)
	}
	for seq, read := range map[int64]bool{1: true, begins(20_000) + 5: true, begins(20_001): true, begins(20_001) + 6: false} {
		for _, ids := range []*grapnel.IDs{a, b} {
			got, err := ids.Read(grapnel.PlainDeliveryID(at(1), seq))
			if err == nil != read || read && got.Seq != seq {
				t.Errorf("the id of %d in clear is read as %v, %v", seq, got, err)
			}
			got, err = ids.Read(a.Delivery(at(1), seq))
			if err != nil || got.Seq != seq {
				t.Errorf("the id of %d is read as %v, %v", seq, got, err)
			}
		}
	}
}
