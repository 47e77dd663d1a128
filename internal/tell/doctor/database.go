package doctor

import (
	"context"
	"fmt"

	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
)

// Postgres looks at the database of a URL, for Subject.Postgres.
func Postgres(url string, password postgres.Password) func(context.Context) (postgres.Condition, error) {
	return func(ctx context.Context) (postgres.Condition, error) { return postgres.Examine(ctx, url, password) }
}

const inSQLite = "the data are in SQLite"

// inPostgres makes a check of a look at the database, which is possible if it can be reached.
func inPostgres(look func(*Subject) []Finding) func(context.Context, *Subject) ([]Finding, string) {
	return func(_ context.Context, s *Subject) ([]Finding, string) {
		switch {
		case s.Postgres == nil:
			return nil, inSQLite
		case s.unusable != nil:
			return nil, "the database cannot be reached"
		}
		return look(s), ""
	}
}

func checkPostgres(_ context.Context, s *Subject) (found []Finding, _ string) {
	if s.Postgres == nil {
		return nil, inSQLite
	}
	if s.unusable != nil {
		return []Finding{bad("PostgreSQL cannot be used: "+s.unusable.Error(), "The server accepts no events without it.",
			"Try the same URL with psql from this machine; correct --store, the password, pg_hba.conf or the firewall.")}, ""
	}
	is := s.database
	if is.Version < postgres.OldestVersion {
		found = append(found, bad(fmt.Sprintf("PostgreSQL is version %d", is.Version/10000), "The server refuses it: Grapnel needs 14 or later.", "Upgrade it."))
	}
	if is.Settings["server_encoding"] != "UTF8" {
		found = append(found, bad("the database's encoding is "+is.Settings["server_encoding"], "The server refuses it: not every event could be stored.",
			"createdb -E UTF8 -T template0 NAME, and name it in --store."))
	}
	if is.Standby {
		found = append(found, bad("--store leads to a standby", "Nothing can be written there.", "Name the primary in --store, or all hosts with target_session_attrs=read-write."))
	}
	return found, ""
}

func checkDurable(s *Subject) (found []Finding) {
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if s.database.Settings[name] == "off" {
			found = append(found, bad(name+" is off", "Accepted events are lost, or the database is damaged, when its machine loses power.",
				"ALTER SYSTEM SET "+name+" = on; SELECT pg_reload_conf();"))
		}
	}
	return found
}

func checkRights(s *Subject) []Finding {
	if s.database.Standby || s.database.MayCreate {
		return nil
	}
	return []Finding{bad("the role of --store may not create tables", "The schema cannot be created, and each day needs tables of its own.",
		"As the database's owner: GRANT CREATE, USAGE ON SCHEMA public TO ROLE;")}
}

func checkConnections(s *Subject) []Finding {
	if s.database.Connections+s.Bounds.Node <= s.database.Most {
		return nil
	}
	return []Finding{worrying(fmt.Sprintf("%d of %d connections are in use", s.database.Connections, s.database.Most),
		fmt.Sprintf("A node that starts needs up to %d more.", s.Bounds.Node), "Raise max_connections, stop other clients, or put PgBouncer in between.")}
}

func checkReplication(s *Subject) (found []Finding) {
	for _, slot := range s.database.Slots {
		if slot.Retained > s.Bounds.Lag {
			what := fmt.Sprintf("no standby uses the replication slot %s, which retains %s of log", slot.Name, say.Bytes(int(slot.Retained)))
			found = append(found, worrying(what, "The log fills the disk, and then nothing can be written.", "Start its standby, or SELECT pg_drop_replication_slot('"+slot.Name+"');"))
		}
	}
	for _, standby := range s.database.Lags {
		if standby.Bytes > s.Bounds.Lag {
			found = append(found, worrying(fmt.Sprintf("the standby %s is %s behind", standby.Name, say.Bytes(int(standby.Bytes))),
				"A failover to it loses what it has not received, and takes longer.", "Look at its disk and network; SELECT * FROM pg_stat_replication shows where it waits."))
		}
	}
	return found
}

func checkCare(s *Subject) (found []Finding) {
	if s.database.Settings["autovacuum"] == "off" {
		found = append(found, worrying("autovacuum is off", "Tables grow, and plans become wrong.", "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();"))
	}
	if s.database.InClear {
		found = append(found, worrying("the connection to PostgreSQL crosses a network without TLS", "Payloads and secrets can be read on the way.", "Add sslmode=verify-full to the URL of --store."))
	}
	return found
}
