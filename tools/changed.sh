#!/bin/sh
# Prints the packages of this module that a branch changes, and those that import them, a line each.
#   tools/changed.sh BASE [FOREIGN…]    uncommitted and new files count too
# A package of which only tests or their data changed is printed without those that import it. A file that is in no package belongs
# to the nearest package above it. Left out are e2e and bench, whose tests start servers for minutes, and without a PostgreSQL on this
# machine the packages FOREIGN, which start one.
set -eu
go=${GO:-go}
base=$(git merge-base HEAD "$1" 2>/dev/null || git rev-parse HEAD)
shift
leave='^(e2e|bench)(/|$)'
if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && ! command -v postgres >/dev/null 2>&1; then
	for one in "$@"; do leave="$leave|^${one#./}\$"; done
	echo "no PostgreSQL here: packages that need one are left out" >&2
fi
{
	"$go" list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | sed 's/^/package /'
	{ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u | sed 's/^/file /'
} | awk -v module="$("$go" list -m)" -v leave="$leave" '
	function dir(path) { return path == module ? "." : substr(path, length(module) + 2) }
	function above(path) { return path ~ "/" ? substr(path, 1, match(path, "/[^/]*$") - 1) : "." }
	$1 == "package" { known[dir($2)]; for (i = 3; i <= NF; i++) imports[dir($2), $i] }
	$1 == "file" {
		at = above($2)
		while (!(at in known) && at != ".") at = above(at)
		if (at == "." && ($2 ~ "/" || $2 !~ /\.go$/) || $2 ~ /\.md$/) next # in no package, such as docs
		changed[at]
		if ($2 !~ /_test\.go$|\/testdata\//) product[at == "." ? module : module "/" at]
	}
	END {
		for (one in known) {
			is = one in changed
			for (path in product) is = is || (one SUBSEP path) in imports
			if (is && one !~ leave) print one == "." ? "." : "./" one
		}
	}' | sort
