#!/bin/sh
# After an installation the server is not started: it would create its keys before it is configured. After an upgrade a running
# server is restarted, which drains it.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart grapnel.service
fi
