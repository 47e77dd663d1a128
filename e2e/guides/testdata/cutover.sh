### svix
grapnel serve --listen 127.0.0.1:8071 --store sqlite:old/grapnel.db --svix-api

### grapnel
grapnel serve

### before
cp old/admin.key svix.token
svix() { curl -sf "http://localhost:8071/api/v1$1" -H "Authorization: Bearer $(cat svix.token)" -H 'Content-Type: application/json' "${@:2}"; }
svix /app -d '{"uid":"acme","name":"Acme"}'
svix /app/acme/endpoint -d '{"url":"https://example.com/hooks","uid":"main"}'

### same
svix /app/acme/endpoint/main/secret | jq -r .key >secret
for at in 8071 8420; do
  key=grapnel-data/admin.key
  [ $at = 8420 ] || key=old/admin.key
  of() { GRAPNEL_SERVER=http://127.0.0.1:$at GRAPNEL_KEY=$(cat $key) grapnel "$@"; }
  until [ "$(of deliveries list --type invoice.paid --status delivered --jq '.data | length')" = 1 ]; do sleep 0.1; done
  delivery=$(of deliveries list --type invoice.paid -o name)
  of deliveries get $delivery --jq .event_id >id.$at
  of deliveries get $delivery --body >body
  of deliveries get $delivery --jq '.attempts[0].request_headers | to_entries[] | "\(.key): \(.value)"' >headers
  with=()
  while read -r header; do with+=(-H "$header"); done <headers
  grep -i "^webhook-id: $(cat id.$at)$" headers
  for scheme in standard svix; do grapnel verify $scheme --secret @secret --body @body "${with[@]}"; done
done
cmp id.8071 id.8420
[ $(grep -c '^example.com /hooks 200 {"amount":100}$' received) = 2 ]
