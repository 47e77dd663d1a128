### secret
echo whsec_4rkkf5tsez1tgnggwcg2MfKQ9r8GKYqr

### early
grapnel trigger stripe invoice.paid --source stripe-live --secret @stripe.secret

### receiver
node -e 'require("http").createServer((q, r) => { if (q.headers["stripe-signature"]) require("fs").writeFileSync("got", ""); r.end(); }).listen(3000)'

### listened
grapnel trigger stripe invoice.paid --source stripe-live --secret @stripe.secret && [ -e got ]
