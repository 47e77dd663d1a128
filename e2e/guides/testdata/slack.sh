### tested
grep -q 'hooks.slack.com /services/T0001/B0001/abcdefgh 200 .*Test of this channel' received

### refuse
echo 410 >answer

### told
grep -q 'hooks.slack.com .*is disabled' received
