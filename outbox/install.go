package outbox

import _ "embed" // the SQL

// Version is the version of the SQL. It rises when the database's schema has to change.
const Version = 1

//go:embed install.sql
var installSQL string

// InstallSQL is the SQL that creates the outbox in a database, for producers that run it among
// their own migrations; "grapnel outbox install" runs the same. It has to run in one transaction,
// can be repeated, and refuses a database with a newer version.
func InstallSQL() string { return installSQL }

// UninstallSQL removes the outbox with all events that have not been relayed.
func UninstallSQL() string {
	return `DROP FUNCTION grapnel.grapnel_publish(text, text, text, text, text, timestamptz);
DROP TABLE grapnel.outbox_event, grapnel.outbox_commit, grapnel.outbox_installation;
DROP FUNCTION grapnel.outbox_number();
DROP SEQUENCE grapnel.outbox_event_id, grapnel.outbox_commit_number, grapnel.outbox_sleeper;
DROP SCHEMA grapnel;
`
}
