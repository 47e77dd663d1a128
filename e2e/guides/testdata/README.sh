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
event=$(grep -o '^flaky   got evt_[a-z0-9]*, attempt 3: invoice.paid' $log | tail -1 | grep -o 'evt_[a-z0-9]*' | head -1)
grep "flaky   answered 503 to $event, attempt 2: it is flaky; watch the retry" $log
./grapnel deliveries list --jq ".data[] | select(.event_id == \"$event\" and .attempts_made == 3) | .id" | grep dlv_
