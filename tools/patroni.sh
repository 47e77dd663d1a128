#!/bin/sh
# Fetches the Patroni that tests of failovers run, at the versions of tools/patroni, and prints its program:
# PGTEST_PATRONI=$(tools/patroni.sh). It is where another user than root can read it.
set -eu
from=$(CDPATH='' cd -- "$(dirname -- "$0")/patroni" && pwd)
to=/var/tmp/grapnel-patroni-$(id -u)/$(cksum <"$from/requirements.txt" | cut -d' ' -f1)
if [ ! -e "$to/complete" ]; then
	mkdir -p "$to"
	[ -O "${to%/*}" ] || { echo "${to%/*} is another user's" >&2; exit 1; }
	python=/usr/bin/python3 # one in the home directory would be out of reach
	[ -x "$python" ] || python=python3
	"$python" -m venv "$to"
	"$to/bin/python" -m pip install --quiet --no-deps --disable-pip-version-check -r "$from/requirements.txt" >&2
	chmod -R a+rX "${to%/*}"
	touch "$to/complete"
fi
echo "$to/bin/patroni"
