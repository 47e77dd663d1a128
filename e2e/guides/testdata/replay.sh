### delivered
grapnel endpoints create https://example.com/hooks --types 'invoice.*'
for n in 1 2 3; do grapnel send invoice.paid --key inv_$n -d "{\"n\":$n}"; done
until [ "$(grapnel deliveries list --status delivered -o name | wc -l)" = 3 ]; do sleep 0.1; done

### twice
[ "$(wc -l <received)" = 6 ] && [ "$(sort received | uniq -d | wc -l)" = 3 ]
