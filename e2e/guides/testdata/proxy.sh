### machine
at=$(dirname $SSL_CERT_FILE)
{ echo "daemon off; master_process off; pid $at/pid; error_log stderr; events {} http { access_log off;"
for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $at/$kind;"; done
sed "s#/etc/letsencrypt/live/hooks.example.com#$at#" etc/nginx/conf.d/grapnel.conf; echo "}"; } >$at/nginx.conf
sudo() { "$@"; }
nginx() { command nginx -q -p $at -e stderr -c $at/nginx.conf "$@"; }
systemctl() { [ "$*" = "reload nginx" ]; }

### nginx
exec /usr/sbin/nginx -p $at -e stderr -c $at/nginx.conf

### prepared
grapnel queues create work
grapnel keys create --name far --scope read --from 127.0.0.5
for n in $(seq 30); do printf '{"type":"big","data":"%s"}\n' $(head -c 100000 /dev/zero | tr '\0' x); done >big.ndjson
code() { curl -s -o /dev/null -w '%{http_code}' "$@"; }
looks() {
  [ $(code http://hooks.example.com/readyz) = 308 ] && [ $(code https://hooks.example.com/peer) = 404 ]
  admin="Authorization: Bearer $(cat grapnel-data/admin.key)"
  [ $(code https://hooks.example.com/v1/events/batch -H "$admin" -H 'Content-Type: application/x-ndjson' --data-binary @big.ndjson) = 202 ]
  grapnel queues purge work --reason test --yes && grapnel send small -d '{"n":1}'
  grep -m 1 -q '"type":"small"' < <(curl -sN -m 20 https://hooks.example.com/v1/queues/work/stream -H "$admin")
  [ $(code --interface 127.0.0.5 https://hooks.example.com/v1/endpoints -H "Authorization: Bearer $far") = 200 ]
  [ $(code https://hooks.example.com/v1/endpoints -H "Authorization: Bearer $far") = 403 ]
  [ $(code --interface 127.0.0.6 https://hooks.example.com/v1/endpoints -H "Authorization: Bearer $far" -H 'X-Forwarded-For: 127.0.0.5') = 403 ]
}

### nginx-works
far=grp_…
looks

### caddy
{ printf '{\n local_certs\n skip_install_trust\n admin off\n}\n'; cat etc/caddy/Caddyfile; } >Caddyfile
exec caddy run --config Caddyfile

### caddy-works
export CURL_CA_BUNDLE=$HOME/.local/share/caddy/pki/authorities/local/root.crt
until curl -s https://hooks.example.com/readyz; do sleep 0.1; done
looks
