### endpoint
grapnel endpoints create https://example.com/hooks --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw

### source
grapnel sources create github --scheme github --secret 'an old secret of GitHub'
printf %s 'a new secret of GitHub' >new.secret

### old-key
grapnel keys create --name billing-1 --scope publish
