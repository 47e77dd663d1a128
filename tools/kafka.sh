#!/bin/sh
# Fetches Kafka's server with the dependencies that tools/kafka/pom.xml pins, and prints the directory of its jars. It needs maven.
set -eu
from=$(CDPATH='' cd -- "$(dirname -- "$0")/kafka" && pwd)
to=/var/tmp/grapnel-kafka-$(id -u)/$(cksum <"$from/pom.xml" | cut -d' ' -f1)
if [ ! -e "$to/complete" ]; then
	mkdir -p "$to"
	[ -O "${to%/*}" ] || { echo "${to%/*} is another user's" >&2; exit 1; }
	mvn -q -B -f "$from/pom.xml" dependency:copy-dependencies -DoutputDirectory="$to" -DincludeScope=runtime >&2
	touch "$to/complete"
fi
echo "$to"
