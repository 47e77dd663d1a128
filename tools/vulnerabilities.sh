#!/bin/sh
# Looks for known vulnerabilities in the code that this tree calls. Without Go's database of them nothing is checked, which
# fails nothing, and is said. GOVULNDB names another copy of the database.
set -eu
db=${GOVULNDB:-https://vuln.go.dev}
# The scan of modules reads the database and no package: the answer does not wait for all of them.
if ! said=$(govulncheck -db "$db" -scan module 2>&1); then
	case $said in
	*"fetching vulnerabilities"*)
		printf '%s\n' "$said" "vulnerabilities: NOT CHECKED, because the database cannot be read" >&2
		exit 0
		;;
	esac
fi
exec govulncheck -db "$db" ./...
