### archive
tar czf grapnel_0.1.0_linux_amd64.tar.gz -C $(dirname $(command -v grapnel)) grapnel

### ready
until grep -q 'Ctrl-C ends' $(dirname $SSL_CERT_FILE)/127.0.0.1-8420.log; do sleep 0.1; done

### story
log=$(dirname $SSL_CERT_FILE)/127.0.0.1-8420.log
until grep -q 'dlq replay' $log; do sleep 0.1; done
eval "$(sed -n 's/^ *\(curl -X POST.*\)/\1/p; s/^ *\(.*dlq replay.*\)/\1/p' $log)"
for n in 1 2 3; do ./grapnel send invoice.paid -d '{"amount":100}'; done

### got
[ -z "$(./grapnel dlq list -o name)" ]
./grapnel deliveries list --type invoice.paid --jq '.data[] | select(.attempts_made == 3) | "\(.event_id) \(.id)"' | while read -r event delivery; do
  grep -q "flaky   answered 503 to $event, attempt 2: it is flaky; watch the retry" $log || continue
  grep -q "flaky   got $event, attempt 3" $log && grep -q "healthy got $event, attempt 1" $log || continue
  ./grapnel deliveries get $delivery --jq '[.attempts[].trigger] | unique == ["schedule"]' | grep -qx true && echo $delivery && break
done | grep dlv_
