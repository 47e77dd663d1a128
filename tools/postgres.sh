#!/bin/sh
# Fetches the servers of the PostgreSQL versions that tests run on, at the versions and checksums of tools/postgres, and prints the
# directory of one version's programs: PGTEST_BIN=$(tools/postgres.sh 14) go test ./internal/store/postgres. They are where a server that
# root starts as another user can read them, in a directory for each state of the lock file.
set -eu
version=${1:?usage: tools/postgres.sh VERSION, such as 14}
from=$(CDPATH='' cd -- "$(dirname -- "$0")/postgres" && pwd)
to=/var/tmp/grapnel-postgres-$(id -u)/$(cksum <"$from/package-lock.json" | cut -d' ' -f1)
if [ ! -e "$to/complete" ]; then
	mkdir -p "$to"
	[ -O "${to%/*}" ] || { echo "${to%/*} is another user's" >&2; exit 1; }
	cp "$from/package.json" "$from/package-lock.json" "$to"
	# No script of a package runs. Packages contain no links, but a list of them.
	(cd "$to" && npm ci --silent --ignore-scripts --no-audit --no-fund && node -e '
		const fs = require("fs"), path = require("path")
		for (const name of fs.readdirSync("node_modules").filter(n => n.startsWith("postgres"))) {
			const dir = path.join("node_modules", name)
			for (const { source, target } of JSON.parse(fs.readFileSync(path.join(dir, "native/pg-symlinks.json"))))
				fs.symlinkSync(path.relative(path.dirname(target), source), path.join(dir, target))
			for (const program of fs.readdirSync(path.join(dir, "native/bin"))) fs.chmodSync(path.join(dir, "native/bin", program), 0o755)
		}') >&2
	chmod -R a+rX "${to%/*}"
	touch "$to/complete"
fi
bin=$to/node_modules/postgres$version/native/bin
[ -x "$bin/postgres" ] || { echo "tools/postgres has no PostgreSQL $version" >&2; exit 1; }
echo "$bin"
