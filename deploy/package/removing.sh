#!/bin/sh
# $1 is "remove" (deb) or 0 (rpm) when the package goes; an upgrade restarts the server later. Data stay.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
	systemctl --no-reload disable --now grapnel.service
fi
