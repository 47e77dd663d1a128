package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// plan is SQLite's plan of a query, one step a line.
func plan(t *testing.T, conn *sqlite3.Conn, query string) string {
	t.Helper()
	s, err := conn.Prepare("EXPLAIN QUERY PLAN " + query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var lines []string
	for {
		more, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return strings.Join(lines, "\n")
		}
		lines = append(lines, s.String(3))
	}
}

// audited is the SQL of a list of entries.
func audited(q store.AuditQuery) string {
	sql, _ := auditQuery(q)
	return sql
}

// replayed is the SQL of a list of replays.
func replayed(q store.ReplayQuery) string {
	sql, _ := replaysQuery(q)
	return sql
}

// documented is the SQL of a list of documents.
func documented(q store.DocumentQuery) string {
	sql, _ := documentsQuery(q)
	return sql
}

// setAside is the SQL of a list of requests that were set aside.
func setAside(q store.AsideQuery) string {
	sql, _ := asidesQuery(q)
	return sql
}

// merged is the plan of a list that is merged from one part for each reason.
func merged(part string) []string {
	steps := []string{part}
	for range rows.Asides[2:] {
		steps = append(append([]string{"MERGE (UNION ALL)", "LEFT"}, steps...), "RIGHT", part)
	}
	return steps
}

// lookedInto is the plan of a query that looks into one block after the other.
func lookedInto(step string) []string {
	return []string{"CO-ROUTINE b", "SETUP", "SCAN CONSTANT ROW", "RECURSIVE STEP", "SCAN b", "SCAN b", step}
}

func openNew(t *testing.T) (*Store, string) {
	t.Helper()
	return openWith(t, Bounds{})
}

func openWith(t *testing.T, b Bounds) (*Store, string) {
	t.Helper()
	path := filepath.Join(fast(t), "grapnel.db")
	return openAt(t, path, b), path
}

func openAt(t *testing.T, path string, b Bounds) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, small(Options{Ballast: -1, Bounds: b}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestPlans pins the plans of queries on tables of millions of rows: they find rows by an index or
// by row id, in the wanted order. A step that reads every row or sorts shows as SCAN or as TEMP
// B-TREE.
func TestPlans(t *testing.T) {
	_, path := openNew(t)
	conn, err := connect(path, sqlite3.ReadOnly, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, c := range []struct {
		query string
		want  []string // one step each
	}{
		{replayQuery, []string{"SEARCH r USING INDEX sqlite_autoindex_replay_1 (id=?)", "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"}},
		{replayItemsQuery, []string{"SEARCH replay_item USING INDEX replay_item_original (replay=? AND original>?)"}},
		{replayed(store.ReplayQuery{}), []string{"SCAN r USING INDEX sqlite_autoindex_replay_1", "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"}},
		{replayed(store.ReplayQuery{Tenant: "a", Endpoint: "b", Before: "c"}),
			[]string{"SEARCH r USING INDEX replay_endpoint (endpoint=? AND id<?)", "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"}},
		{replayed(store.ReplayQuery{Tenant: "a"}), []string{"SEARCH r USING INDEX replay_tenant (tenant=?)",
			"SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"}},
		{replayed(store.ReplayQuery{Tenant: "a", Active: true}), []string{"SCAN r USING INDEX replay_active",
			"SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"}},
		{fewHeadsQuery, []string{"SEARCH pending USING COVERING INDEX pending_due (target=?)"}},
		{headsQuery, []string{"SEARCH pending USING COVERING INDEX pending_due (target=? AND due>?)"}},
		{headQuery, []string{"SEARCH p USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"}},
		{eventQuery, []string{"SEARCH e USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH k USING INTEGER PRIMARY KEY (rowid=?)"}},
		{eventByIDQuery, []string{"SEARCH e USING INDEX event_id (id=?)", "SEARCH k USING INTEGER PRIMARY KEY (rowid=?)"}},
		{metQuery, []string{"SEARCH e USING INDEX event_id (id=?)", "SEARCH k USING INTEGER PRIMARY KEY (rowid=?)"}},
		{highestDrawnQuery, []string{"SEARCH event USING COVERING INDEX event_id (id>? AND id<?)"}},
		{aheadQuery, []string{"SEARCH e USING COVERING INDEX event_id (id>? AND id<?)", "SEARCH k USING INTEGER PRIMARY KEY (rowid=?)"}},
		{lastAcceptedQuery, []string{"SCAN event"}}, // its last row
		{targetQuery, []string{"SEARCH target USING COVERING INDEX sqlite_autoindex_target_1 (endpoint=?)"}},
		{waitingQuery, []string{"SEARCH tally USING PRIMARY KEY (target=?)"}},
		{oldestQuery, []string{"SEARCH pending USING INTEGER PRIMARY KEY (rowid>?)"}},
		{fmt.Sprintf(gatherQuery, ""), []string{"COMPOUND QUERY", "LEFT-MOST SUBQUERY",
			"SEARCH pending USING COVERING INDEX pending_due (target=?)", "UNION ALL",
			"SEARCH pending USING INDEX pending_lane (target=?)"}},

		{eventsQuery, []string{"SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{eventsKindQuery, []string{"SEARCH event USING COVERING INDEX event_kind (<expr>=? AND kind=?)"}},
		{eventsKindsQuery, []string{"SEARCH event USING COVERING INDEX event_kind (<expr>=?)"}},
		{eventsKeyQuery, []string{"SEARCH event USING COVERING INDEX event_key (<expr>=? AND hash=?)"}},
		{blockOfKeyQuery, lookedInto("SEARCH event EXISTS USING COVERING INDEX event_key (<expr>=? AND hash=?)")},
		{blockOfKindQuery, lookedInto("SEARCH event EXISTS USING COVERING INDEX event_kind (<expr>=? AND kind=?)")},
		{kindsSourceQuery, []string{"SEARCH kind USING INDEX kind_source (source=?)"}},
		{blockSourceQuery, []string{"SEARCH source_block USING PRIMARY KEY (source=? AND block<?)"}},
		{blockNotesOf[0].list, []string{"SEARCH source_block USING PRIMARY KEY ((source,block)>(?,?))"}},
		{blockNotesOf[1].list, []string{"SEARCH delivered_outcome USING PRIMARY KEY ((outcome,block)>(?,?))"}},
		{blockNotesOf[0].drop, []string{"SEARCH source_block USING PRIMARY KEY (source=? AND block=?)", "SCALAR SUBQUERY 1",
			"SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{blockNotesOf[1].drop, []string{"SEARCH delivered_outcome USING PRIMARY KEY (outcome=? AND block=?)", "SCALAR SUBQUERY 1",
			"SEARCH finished USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{newestEventQuery, []string{"SEARCH event"}}, // max of the primary key: its last entry
		{kindsTenantQuery, []string{"SEARCH kind USING COVERING INDEX sqlite_autoindex_kind_1 (tenant=?)"}},
		{hoursQuery, []string{"SEARCH hour USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},

		{pendingRowQuery, []string{"SEARCH p USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH k USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH m USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"}},
		{finishedRowQuery, []string{"SEARCH f USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH k USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH m USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN", "CORRELATED SCALAR SUBQUERY 1",
			"SEARCH ending USING INTEGER PRIMARY KEY (rowid=?)"}},
		{newestAttemptQuery, []string{"SEARCH attempt USING PRIMARY KEY (delivery=?)"}},
		{newestRedeliveriesQuery, []string{"SEARCH redelivery USING COVERING INDEX redelivery_event (event=?)"}},
		{redeliveriesQuery, []string{"SEARCH redelivery USING COVERING INDEX redelivery_event (event=?)"}},
		{markOthersQuery, []string{"MULTI-INDEX OR", "INDEX 1", "SEARCH finished USING INTEGER PRIMARY KEY (rowid=?)", "INDEX 2",
			"LIST SUBQUERY 2", "SEARCH redelivery USING COVERING INDEX redelivery_event (event=?)",
			"SEARCH finished USING INTEGER PRIMARY KEY (rowid=?)", "SCALAR SUBQUERY 1", "SEARCH i USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"}},
		{attemptsQuery, []string{"SEARCH attempt USING PRIMARY KEY (delivery=?)"}},
		{lastAttemptQuery, []string{"SEARCH f USING INTEGER PRIMARY KEY (rowid=?)", "CORRELATED SCALAR SUBQUERY 1",
			"SEARCH ending USING INTEGER PRIMARY KEY (rowid=?)"}},

		{finishedQuery, []string{"SEARCH finished USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{finishedTargetQuery, []string{"SEARCH finished USING COVERING INDEX finished_target (<expr>=? AND target=?)"}},
		{blockOfTargetQuery, lookedInto("SEARCH finished EXISTS USING COVERING INDEX finished_target (<expr>=? AND target=?)")},
		{finishedTargetsQuery, []string{"SEARCH finished USING COVERING INDEX finished_target (<expr>=?)"}},
		{nextOutcomeQuery, []string{"SEARCH finished USING COVERING INDEX finished_outcome (target=? AND status=? AND outcome>?)"}},
		{finishedOutcomeQuery, []string{"SEARCH finished USING COVERING INDEX finished_outcome (target=? AND status=? AND outcome=? AND rowid>? AND rowid<?)"}},
		{nextDeliveredOutcomeQuery, []string{"SEARCH delivered_outcome USING PRIMARY KEY (outcome>?)"}},
		{blockOfOutcomeQuery, []string{"SEARCH delivered_outcome USING PRIMARY KEY (outcome=? AND block<?)"}},
		{targetsOfOutcomeQuery, []string{"SEARCH target_outcome USING PRIMARY KEY (outcome=?)"}},
		{outcomeAtTargetQuery, []string{"SEARCH target_outcome USING PRIMARY KEY (outcome=? AND target=?)"}},
		{blockOutcomeQuery, []string{"SEARCH finished USING COVERING INDEX finished_target (<expr>=? AND target=? AND outcome=?)"}},
		{blockOutcomesQuery, []string{"SEARCH finished USING COVERING INDEX finished_target (<expr>=?)"}},
		{deadLettersQuery, []string{"SEARCH letter USING PRIMARY KEY (target=? AND seq>? AND seq<?)"}},
		{letterOutcomeQuery, []string{"SEARCH finished USING COVERING INDEX finished_outcome (target=? AND status=? AND outcome=? AND rowid>? AND rowid<?)",
			"SEARCH l EXISTS USING PRIMARY KEY (target=? AND seq=?)"}},
		{replayedLettersQuery, []string{"SEARCH finished USING COVERING INDEX finished_undelivered (target=? AND status=? AND rowid>? AND rowid<?)",
			"CORRELATED SCALAR SUBQUERY 1", "SEARCH mark USING INTEGER PRIMARY KEY (rowid=?)"}},
		{undeliveredAfterQuery, []string{"SEARCH finished USING COVERING INDEX finished_undelivered (target=? AND status=? AND rowid>? AND rowid<?)"}},
		{redeliveredAfterQuery, []string{"SEARCH redelivery USING INTEGER PRIMARY KEY (rowid>?)"}},
		{redeliveredKeysQuery, []string{"SEARCH r USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
			"SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"}},
		{nextOriginQuery, []string{"SEARCH event USING INTEGER PRIMARY KEY (rowid>?)"}},
		{finishedUndeliveredQuery, []string{"SEARCH finished USING COVERING INDEX finished_undelivered (target=? AND status=? AND rowid>? AND rowid<?)"}},
		{fmt.Sprintf(pendingQuery, waitingAny), []string{"SEARCH pending USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{pendingTenantQuery, []string{"SEARCH pending USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{anyLeasedQuery, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY 1", "SEARCH pending USING COVERING INDEX pending_token (token>?)"}},
		{fmt.Sprintf(pendingTargetQuery, waitingFirst), []string{"SEARCH pending USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{fmt.Sprintf(pendingTargetQuery, waitingHeld), []string{"SEARCH pending USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{redeliveredQuery, []string{"SEARCH redelivery USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{firstDeliveryQuery, []string{"SEARCH event USING INTEGER PRIMARY KEY (rowid>?)"}},
		{lastDeliveryQuery, []string{"SEARCH event USING INTEGER PRIMARY KEY (rowid<?)"}},
		{lateQuery, []string{"SEARCH pending USING INDEX pending_due (target=? AND due>?)"}},
		{stuckQuery, []string{"SEARCH pending USING INDEX pending_due (target=?)", "SCALAR SUBQUERY 1",
			"SEARCH tenant USING COVERING INDEX sqlite_autoindex_tenant_1 (name=?)", "USE TEMP B-TREE FOR ORDER BY"}},
		{behindQuery, []string{"CO-ROUTINE (subquery-1)",
			"SEARCH pending USING COVERING INDEX pending_lane (target=? AND lane=? AND position>?)", "SCAN (subquery-1)"}},
		{audited(store.AuditQuery{}), []string{"SEARCH audit USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}},
		{audited(store.AuditQuery{Tenant: "a"}), []string{"SEARCH audit USING INDEX audit_tenant (tenant=? AND rowid>? AND rowid<?)"}},
		{audited(store.AuditQuery{Tenant: "a", Endpoint: "b"}), []string{"SEARCH audit USING INDEX audit_endpoint (endpoint=? AND rowid>? AND rowid<?)"}},
		{audited(store.AuditQuery{Tenant: "a", Endpoint: "b", Delivery: "c"}),
			[]string{"SEARCH audit USING INDEX audit_delivery (delivery=? AND rowid>? AND rowid<?)"}},
		{nextHourQuery, []string{"SEARCH total_hour USING PRIMARY KEY (hour>?)"}},
		{totalHoursQuery, []string{"SEARCH total_hour USING PRIMARY KEY (hour=? AND target=?)"}},
		{totalHourAllQuery, []string{"SEARCH total_hour USING PRIMARY KEY (hour=? AND target>?)"}},
		{totalDaysAllQuery, []string{"SEARCH total_day USING PRIMARY KEY (target>?)"}},
		{typesQuery, []string{"SEARCH total_type USING PRIMARY KEY (whole=? AND hour>? AND hour<?)"}},
		{nextTypesQuery, []string{"SEARCH total_type USING PRIMARY KEY (whole=? AND hour>?)"}},
		{typesTenantQuery, []string{"SEARCH total_type USING PRIMARY KEY (whole=? AND hour=? AND tenant=?)"}},
		{typesToldQuery, []string{"SEARCH total_type USING PRIMARY KEY (whole=? AND hour=? AND tenant=?)"}},
		{anyOldTypeQuery, []string{"SEARCH total_type USING PRIMARY KEY (whole=? AND hour<?)"}},
		{totalDaysQuery, []string{"SEARCH total_day USING PRIMARY KEY (target=? AND day>? AND day<?)"}},
		{openHoursQuery, []string{"SEARCH tally USING PRIMARY KEY (target=?)"}},
		{tenantQuery, []string{"SEARCH tenant USING COVERING INDEX sqlite_autoindex_tenant_1 (name=?)"}},
		{leaseQuery, []string{"SEARCH pending USING INDEX pending_token (token=?)"}},
		{leaseOfQuery, []string{"SEARCH pending USING INDEX pending_token (token=?)", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"}},
		{leasesQuery, []string{"SEARCH pending USING INDEX pending_leased (target=?)"}},
		{runOutQuery, []string{"SEARCH pending USING INDEX pending_leased (target=? AND due<?)"}},
		{claimableQuery, []string{"SEARCH pending USING COVERING INDEX pending_due (target=? AND due>?)"}},
		{holdersQuery, []string{"SEARCH pending USING INDEX pending_leased (target>?)"}},
		{leasedQuery, []string{"SEARCH pending USING INDEX pending_leased (target=?)"}},
		{blockedQuery, []string{"CO-ROUTINE (subquery-1)", "SEARCH pending USING COVERING INDEX pending_due (target=? AND due=?)",
			"SCAN (subquery-1)"}},
		{rangeQuery, []string{"CO-ROUTINE (subquery-1)", "SEARCH pending USING COVERING INDEX pending_due (target=? AND due>? AND due<?)",
			"SCAN (subquery-1)"}},
		{lettersQuery, []string{"SEARCH tally USING PRIMARY KEY (target=?)"}},
		{knownQuery, []string{"SEARCH k USING INTEGER PRIMARY KEY (rowid=?)"}},
		{indexedQuery, []string{"SEARCH i USING PRIMARY KEY (prefix=?)", "SEARCH k USING INTEGER PRIMARY KEY (rowid=?)"}},
		{recentQuery, []string{"SEARCH known USING INTEGER PRIMARY KEY (rowid>?)", "SCALAR SUBQUERY 1", "SCAN known_moved"}},
		{firstKnownQuery, []string{"SEARCH known"}}, // min of the primary key: its first entry
		{unlearnedQuery, []string{"SEARCH known USING COVERING INDEX known_until (until<?)"}},
		{oldAsidesQuery, []string{"SEARCH aside USING COVERING INDEX aside_at (at<?)"}},
		{asideQuery, []string{"SEARCH aside USING INDEX sqlite_autoindex_aside_1 (id=?)"}},
		{setAside(store.AsideQuery{}), merged("SEARCH aside USING INDEX aside_why (why=?)")},
		{setAside(store.AsideQuery{Source: "a", Tenant: "b", Before: "c"}),
			merged("SEARCH aside USING INDEX aside_source (source=? AND why=? AND id<?)")},
		{setAside(store.AsideQuery{Tenant: "b", Why: grapnel.AsideConflict}),
			[]string{"SEARCH aside USING INDEX aside_tenant (tenant=? AND why=?)"}},
		{answerQuery, []string{"SEARCH answer USING INDEX sqlite_autoindex_answer_1 (key=?)"}},
		{documentQuery, []string{"SEARCH document USING INDEX sqlite_autoindex_document_1 (tenant=? AND kind=? AND id=?)"}},
		{documented(store.DocumentQuery{}), []string{"SEARCH document USING INDEX document_id (kind=?)"}},
		{documented(store.DocumentQuery{After: "a"}), []string{"SEARCH document USING INDEX document_id (kind=? AND id>?)"}},
		{documented(store.DocumentQuery{After: "a", Backwards: true}), []string{"SEARCH document USING INDEX document_id (kind=? AND id<?)"}},
		{documented(store.DocumentQuery{Tenant: "t"}), []string{"SEARCH document USING INDEX sqlite_autoindex_document_1 (tenant=? AND kind=?)"}},
		{documented(store.DocumentQuery{Tenant: "t", After: "a"}),
			[]string{"SEARCH document USING INDEX sqlite_autoindex_document_1 (tenant=? AND kind=? AND id>?)"}},
		{documented(store.DocumentQuery{Tenant: "t", After: "a", Backwards: true}),
			[]string{"SEARCH document USING INDEX sqlite_autoindex_document_1 (tenant=? AND kind=? AND id<?)"}},
		{clearDocumentsQuery, []string{"SEARCH document USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY 1",
			"SEARCH document USING COVERING INDEX document_at (kind=? AND at<?)"}},
	} {
		if got := strings.Split(plan(t, conn, c.query), "\n"); !slices.Equal(got, c.want) {
			t.Errorf("%s\n got  %q\n want %q", c.query, got, c.want)
		}
	}
}

// TestWriterPlans checks every statement of the writer: none may read a whole table.
func TestWriterPlans(t *testing.T) {
	_, path := openNew(t)
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	seen := 0
	for _, p := range new(statements).all(1) {
		sql := p.sql
		if strings.HasPrefix(sql, "BEGIN") || sql == "COMMIT" || sql == "ROLLBACK" {
			continue
		}
		seen++
		got := plan(t, conn, sql)
		if got == "SCAN configuration" || got == "SCAN ledger" || got == "SCAN known_moved" || got == "SCAN journal" ||
			got == "SCAN sqlite_dbpage VIRTUAL TABLE INDEX 1:" {
			continue // one row, or one page by its number
		}
		if strings.Contains(got, "SCAN") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s\n%s", sql, got)
		}
	}
	if seen < 30 {
		t.Errorf("only %d statements were looked at", seen)
	}
}
