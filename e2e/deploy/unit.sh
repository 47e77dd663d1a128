#!/bin/bash
# Installs the deb into a small Debian, boots it in a container, and looks at what systemd makes of the unit: ready when it says so,
# secrets as credentials, few rights, a reload, a restart of a process that hangs, an upgrade, a removal that leaves the data.
#
#   systemd.sh PACKAGE.deb DIR    needs root, mmdebstrap and systemd-container; DIR keeps the Debian
set -euo pipefail
package=$1 dir=$2
[ -e "$dir/bin/systemctl" ] || mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$dir" http://deb.debian.org/debian
rm -rf "$dir"/root/* "$dir"/{etc/grapnel,etc/credstore,var/lib/grapnel,var/lib/private/grapnel,etc/systemd/system/grapnel.service.d}
cp "$package" "$dir/root/grapnel.deb"
cat >"$dir/root/look.sh" <<'LOOK'
#!/bin/bash
exec >/root/out 2>&1
trap 'poweroff' EXIT
set -e
is() { # what, wanted, got
	if [ "$2" != "$3" ]; then echo "FAIL: $1: $3, and not $2"; journalctl -u grapnel --no-pager | tail -20; exit 1; fi
	echo "$1: $3"
}
show() { systemctl show grapnel --value -p "$1"; }
export GRAPNEL_KEY=grp_0123456789012345678901234567890123456789012

dpkg -i /root/grapnel.deb >/dev/null
is "after the installation" inactive "$(systemctl is-active grapnel || true)"
mkdir -m 700 /etc/credstore
printf %s "$GRAPNEL_KEY" >/etc/credstore/GRAPNEL_ADMIN_KEY # the other credentials of the unit do not exist
systemctl enable --quiet --now grapnel
is "after the start" ok "$(grapnel health -o name)"
is "key of the credential" key_admin "$(grapnel keys list -o name)"
pid=$(show MainPID)
is "capabilities" 0000000000000000 "$(sed -n 's/^CapEff:\t//p' /proc/$pid/status)"
is "filter of system calls" 2 "$(sed -n 's/^Seccomp:\t//p' /proc/$pid/status)"
is "mode of the data" 700 "$(stat -Lc %a /var/lib/grapnel)"
grapnel send invoice.paid -d '{}' -o name >/root/event

echo 'log_level: debug' >>/etc/grapnel/grapnel.yaml
systemctl reload grapnel
sleep 1
is "process after a reload" "$pid" "$(show MainPID)"

mkdir /etc/systemd/system/grapnel.service.d
printf '[Service]\nWatchdogSec=3\n' >/etc/systemd/system/grapnel.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart grapnel
sleep 7
is "restarts of a process that lives" 0 "$(show NRestarts)"
kill -STOP "$(show MainPID)"
sleep 8
is "restarts of one that hangs" 1 "$(show NRestarts)"
is "after that" ok "$(grapnel health -o name)"

pid=$(show MainPID)
dpkg -i /root/grapnel.deb >/dev/null
is "after an upgrade" ok "$(grapnel health -o name)"
[ "$pid" != "$(show MainPID)" ] || { echo "FAIL: the upgrade has not restarted it"; exit 1; }
is "the event" "$(cat /root/event)" "$(grapnel events list -o name)"
systemctl stop grapnel
is "result of a stop" success "$(show Result)"
dpkg --purge grapnel >/dev/null
[ -e /var/lib/private/grapnel/grapnel.db ] || { echo "FAIL: the data are gone"; exit 1; }
echo "everything is as it should be"
LOOK
chmod +x "$dir/root/look.sh"
printf '[Service]\nType=oneshot\nExecStart=/root/look.sh\n' >"$dir/etc/systemd/system/look.service"
mkdir -p "$dir/etc/systemd/system/multi-user.target.wants"
ln -sf ../look.service "$dir/etc/systemd/system/multi-user.target.wants/look.service"
timeout 300 systemd-nspawn --quiet --register=no --keep-unit --directory "$dir" --private-network --boot </dev/null >/dev/null 2>&1 || true
cat "$dir/root/out"
grep -q "everything is as it should be" "$dir/root/out"
