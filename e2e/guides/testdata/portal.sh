### opened
curl -sf http://127.0.0.1:8420/portal >/dev/null && curl -sf http://127.0.0.1:8420/portal.js | grep -q grapnel-portal
pass=$(curl -sf -X POST http://127.0.0.1:8420/v1/portal-sessions -H "Authorization: Bearer grpass_…" | jq -r .pass)

### asked
asked() { curl -sf "http://127.0.0.1:8420$1" -H "Authorization: Bearer $pass" -H "Content-Type: application/json" "${@:2}"; }
