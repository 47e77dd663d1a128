#!/bin/bash
# Runs in a Debian in which the package is installed and its unit runs, with one event. It looks at what systemd makes of the unit: ready
# when it says so, secrets as credentials, few rights, a reload, a restart of a process that hangs, an upgrade, a removal that leaves the
# data.
set -euo pipefail
is() { # what, wanted, got
	if [ "$2" != "$3" ]; then echo "FAIL: $1: $3, and not $2"; exit 1; fi
	echo "$1: $3"
}
show() { systemctl show grapnel --value -p "$1"; }
upgrade() { dpkg -i /srv/grapnel_*.deb >/dev/null; }
export GRAPNEL_KEY=grp_0123456789012345678901234567890123456789012

mkdir -m 700 /etc/credstore
printf %s "$GRAPNEL_KEY" >/etc/credstore/GRAPNEL_ADMIN_KEY # the other credentials of the unit do not exist
systemctl restart grapnel
is "after the start" ok "$(grapnel health -o name)"
is "key of the credential" key_admin "$(grapnel keys list -o name)"
events=$(grapnel events list -o name)
pid=$(show MainPID)
is "capabilities" 0000000000000000 "$(sed -n 's/^CapEff:\t//p' /proc/$pid/status)"
is "filter of system calls" 2 "$(sed -n 's/^Seccomp:\t//p' /proc/$pid/status)"
is "mode of the data" 700 "$(stat -Lc %a /var/lib/grapnel)"

echo 'log_level: debug' >>/etc/grapnel/grapnel.yaml
systemctl reload grapnel
until journalctl -u grapnel | grep 'settings read again' >/dev/null; do sleep 0.1; done
is "process after a reload" "$pid" "$(show MainPID)"

printf '[Service]\nWatchdogSec=3\n' >/etc/systemd/system/grapnel.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart grapnel
sleep 7
is "restarts of a process that lives" 0 "$(show NRestarts)"
kill -STOP "$(show MainPID)"
until [ "$(show NRestarts)" = 1 ]; do sleep 0.1; done
until [ "$(systemctl is-active grapnel)" = active ]; do sleep 0.1; done
is "after a restart of one that hung" ok "$(grapnel health -o name)"

pid=$(show MainPID)
upgrade
is "after an upgrade" ok "$(grapnel health -o name)"
[ "$pid" != "$(show MainPID)" ] || { echo "FAIL: the upgrade has not restarted it"; exit 1; }
is "the events" "$events" "$(grapnel events list -o name)"
systemctl stop grapnel
is "result of a stop" success "$(show Result)"
dpkg --purge grapnel >/dev/null
upgrade
is "after a new installation" inactive "$(systemctl is-active grapnel || true)"
systemctl start grapnel
is "the events that the removal has left" "$events" "$(grapnel events list -o name)"
