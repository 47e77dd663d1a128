package policy

import "testing"

func TestDecide(t *testing.T) {
	standard, _ := Preset("standard")
	webhookify, _ := Preset("webhookify")
	hooque, _ := Preset("hooque")
	own := inline(t, `{"success":["200-202"],"classify":{"4xx":"fail","401-403":"retry","402":"fail","timeout":"fail",
		"redirect":"disable","3xx":"fail","500":"throttle"}}`)
	cases := []struct {
		policy *Policy
		name   string
		o      Outcome
		want   Decision
	}{
		{&standard, "200", Outcome{Status: 200, Class: ClassNone}, Deliver},
		{&standard, "299", Outcome{Status: 299, Class: ClassNone}, Deliver},
		{&standard, "200 whose body never ends", Outcome{Status: 200, Class: ClassTimeout}, Retry},
		{&standard, "200 that breaks off", Outcome{Status: 200, Class: ClassReset}, Retry},
		{&standard, "301", Outcome{Status: 301, Class: ClassRedirect}, Retry},
		{&standard, "404", Outcome{Status: 404, Class: ClassStatus4xx}, Retry},
		{&standard, "410", Outcome{Status: 410, Class: ClassStatus4xx}, DisableEndpoint},
		{&standard, "429", Outcome{Status: 429, Class: ClassStatus429}, Throttle},
		{&standard, "500", Outcome{Status: 500, Class: ClassStatus5xx}, Retry},
		{&standard, "503", Outcome{Status: 503, Class: ClassStatus5xx}, Retry},
		{&standard, "503 that asks", Outcome{Status: 503, Class: ClassStatus5xx, HasRetryAfter: true, RetryAfter: 1}, Throttle},
		{&standard, "503 that asks for nonsense", Outcome{Status: 503, HasRetryAfter: true, RetryAfter: -1}, Retry},
		{&standard, "dns", Outcome{Class: ClassDNS}, Retry},
		{&standard, "our own fault", Outcome{Class: ClassInternal}, Retry},
		{&standard, "an ack", Outcome{Class: ClassNone}, Deliver},
		{&standard, "a nack", Outcome{Class: ClassNack}, Retry},
		{&standard, "a lease that ran out", Outcome{Class: ClassLease}, Retry},
		{&standard, "a reject", Outcome{Class: ClassReject}, Fail},

		{&webhookify, "400", Outcome{Status: 400, Class: ClassStatus4xx}, Fail},
		{&webhookify, "401", Outcome{Status: 401, Class: ClassStatus4xx}, Retry},
		{&webhookify, "403", Outcome{Status: 403, Class: ClassStatus4xx}, Retry},
		{&webhookify, "404", Outcome{Status: 404, Class: ClassStatus4xx}, Fail},
		{&webhookify, "422", Outcome{Status: 422, Class: ClassStatus4xx}, Retry},

		{&hooque, "422", Outcome{Status: 422, Class: ClassStatus4xx}, Fail},
		{&hooque, "408", Outcome{Status: 408, Class: ClassStatus4xx}, Retry},
		{&hooque, "425", Outcome{Status: 425, Class: ClassStatus4xx}, Retry},
		{&hooque, "429", Outcome{Status: 429, Class: ClassStatus429}, Throttle},

		{&own, "a success that was not listed", Outcome{Status: 204, Class: ClassNone}, Retry},
		{&own, "a family", Outcome{Status: 404, Class: ClassStatus4xx}, Fail},
		{&own, "a range beats its family", Outcome{Status: 401, Class: ClassStatus4xx}, Retry},
		{&own, "a status beats a range", Outcome{Status: 402, Class: ClassStatus4xx}, Fail},
		{&own, "the 410 of the defaults beats a family", Outcome{Status: 410, Class: ClassStatus4xx}, DisableEndpoint},
		{&own, "the 429 of the defaults beats a family", Outcome{Status: 429, Class: ClassStatus429}, Throttle},
		{&own, "an error class", Outcome{Class: ClassTimeout}, Fail},
		{&own, "an error class of a response that broke off", Outcome{Status: 500, Class: ClassTimeout}, Fail},
		{&own, "a status beats the class redirect", Outcome{Status: 302, Class: ClassRedirect}, Fail},
		{&own, "a status listed", Outcome{Status: 500, Class: ClassStatus5xx}, Throttle},
	}
	for _, c := range cases {
		if got := c.policy.Decide(c.o); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.policy.Name, c.name, got, c.want)
		}
	}
}

func TestWrittenRulesBeatTheDefaults(t *testing.T) {
	p := inline(t, `{"classify":{"410":"retry","429":"fail","503":"fail"}}`)
	for status, want := range map[int]Decision{410: Retry, 429: Fail, 503: Fail} {
		if got := p.Decide(Outcome{Status: status, HasRetryAfter: true, RetryAfter: 1}); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}
