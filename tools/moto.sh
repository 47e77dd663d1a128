#!/bin/sh
# Installs moto, which answers as SQS, SNS and S3 of AWS, with the packages that tools/moto/requirements.txt pins, and prints the path of
# its server. It needs python3 with venv.
set -eu
from=$(CDPATH='' cd -- "$(dirname -- "$0")/moto" && pwd)/requirements.txt
to=/var/tmp/grapnel-moto-$(id -u)/$(cksum <"$from" | cut -d' ' -f1)
if [ ! -e "$to/complete" ]; then
	mkdir -p "$to"
	[ -O "${to%/*}" ] || { echo "${to%/*} is another user's" >&2; exit 1; }
	python3 -m venv "$to" >&2
	"$to/bin/python" -m pip install --quiet --no-deps --disable-pip-version-check -r "$from" >&2
	touch "$to/complete"
fi
echo "$to/bin/moto_server"
