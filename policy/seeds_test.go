package policy

// The promises of five documents about webhooks, extracted from their sentences. Texts in quotation
// marks are quotations.

func parseoClaims() Claims {
	return Claims{
		Document: "parseo", Sender: true,
		Schedule: ScheduleClaims{
			// "Delay after previous failure": "Immediate", "1 second" … "24 hours".
			Table: []Duration{0, sec, 5 * sec, 30 * sec, 5 * mins, 30 * mins, 2 * hour, 6 * hour, 24 * hour},
			Mode:  SincePrevious, Tail: TailStop,
			Formula:  &FormulaClaim{},      // "exponential backoff"
			Attempts: 8, Window: 36 * hour, // "After 8 attempts across ~36 hours"
		},
		// "the event is dead-lettered", "an event is abandoned"
		Ending:   EndingClaims{Words: []string{"dead_letter", "abandoned"}, Recorded: true},
		Answers:  AnswerClaims{Success: []string{"2xx"}},
		Ordering: OrderingClaims{Guarantee: "none"}, // "No ordering guarantee"
		// "stored for 30 days", "kept for 30 days"
		Keeping: KeepingClaims{DeadLetters: 720 * hour, Log: 720 * hour},
		Replay: ReplayClaims{
			Offered: true,
			// "frozen at dispatch time"; "with the event payload"
			Payload: []string{"frozen", "caller"},
			Routes:  []string{"/webhooks/{id}/deliveries", "/webhooks/:id/test"},
		},
		// The sample: exists → 200, insert, process, 200.
		Receive: []ReceiveClaims{{Name: "sample", Key: "body id", Steps: []string{"check", "record", "work", "ack"}}},
	}
}

func payleraClaims() Claims {
	return Claims{
		Document: "paylera",
		Sender:   true,
		Schedule: ScheduleClaims{
			// "delay (from previous failure)": "immediate", "15 s" … "24 h (final)".
			Table: []Duration{0, 15 * sec, mins, 5 * mins, 30 * mins, 2 * hour, 6 * hour, 12 * hour, 24 * hour},
			Mode:  SincePrevious, Tail: TailStop,
			// "After attempt 9"; "Retry window 24 hours", "Total retry budget: ~24 hours"
			Attempts: 9, Window: 24 * hour,
		},
		// "marked failed", told to "all other enabled endpoints"
		Ending: EndingClaims{Words: []string{"failed"}, Recorded: true, Notice: "other_endpoints"},
		Answers: AnswerClaims{
			Success:   []string{"2xx"},                  // "A 2xx with any body counts as success"
			Failures:  []AnswerClaim{{"204", "a body"}}, // "a non-2xx (e.g. 204 with a body)"
			Retried:   []string{"3xx", "4xx", "5xx"},    // "A non-2xx status (3xx, 4xx, 5xx)"
			TimeoutAs: "408",                            // "Many 408s": "Handler taking >10 s"
		},
		// "4xx for 100 consecutive deliveries"; pending ones "are dropped"; the missed ones can be
		// inspected
		Disable: &DisableClaims{Consecutive: 100, Of: []string{"4xx"}, Pending: PendingDrop, Inspect: true},
		Ordering: OrderingClaims{
			// "you'll never see"; "until N succeeds or exhausts retries"
			Guarantee: "per_key", Never: true, Exhausted: Advance,
			Skip: "ack the stuck event",
		},
		Latency: []LatencyClaim{
			// "200 ms / 2 s"; "p99: 2 s"
			{"delivery", 50, Duration(200e6)}, {"delivery", 95, 2 * sec}, {"delivery", 99, 2 * sec},
		},
		// "respect the same ordering"
		Replay: ReplayClaims{Offered: true, Order: "original", Routes: []string{"/v1/admin/webhook-endpoints/{id}/replay"}},
		// "The conflict is what makes your handler idempotent; the insert is what makes it atomic
		// with the work."
		Receive: []ReceiveClaims{
			{Name: "insert on conflict", Key: "event_id", Steps: []string{"claim", "work", "ack"}, Atomic: true, Conflict: "duplicate"},
		},
	}
}

func sentClaims() Claims {
	const week, month = 168 * hour, 720 * hour
	return Claims{
		Document: "sent", Sender: true,
		Schedule: ScheduleClaims{
			// "Immediate", "5 seconds", "25 seconds", "2 minutes", "10 minutes", "6+: 1 hour (max)"
			Table: []Duration{0, 5 * sec, 25 * sec, 2 * mins, 10 * mins, hour},
			Mode:  SincePrevious, Tail: TailRepeat,
			Formula: &FormulaClaim{Max: hour}, // "exponential backoff"
			MaxAge:  24 * hour,                // "for up to 24 hours"
		},
		// "After that, the event is discarded."
		Ending:  EndingClaims{Words: []string{"discarded"}},
		Answers: AnswerClaims{Success: []string{"2xx"}},
		Ordering: OrderingClaims{
			Guarantee: "none",   // "Events may arrive out of order."
			Newer:     "strict", // new Date(timestamp) > new Date(lastUpdatedAt)
			Rank:      []string{"SENT", "DELIVERED", "READ", "FAILED"}, Finals: []string{"READ", "FAILED"},
		},
		Replay: ReplayClaims{Offered: true}, // "Event replay after maintenance"
		Receive: []ReceiveClaims{
			{
				// "it's the unique delivery identifier"
				Name: "event id", Key: "X-Webhook-ID", KeyIs: "delivery",
				// "Check last 7 days"; thirtyDaysAgo
				Steps: []string{"ack", "check", "work", "record"}, Window: week, Cleanup: month, Cleans: "completed",
			},
			{Name: "transaction", Steps: []string{"record", "work"}, Atomic: true, Conflict: "error"},
			{Name: "acknowledge quickly", Steps: []string{"ack", "store"}},
		},
	}
}

func hooqueClaims() Claims {
	return Claims{
		Document: "hooque",
		// "permanent (validation/4xx)"
		Answers: AnswerClaims{Success: []string{"2xx"}, Permanent: []string{"4xx"}, Retried: []string{"5xx"}},
		Queue: &QueueClaims{
			// "backoff and retry policy live in your worker", and the sample asks for the next
			// message at once
			Nack:         "at_once",
			Empty:        "exits", // if (resp.status === 204) break
			UnknownError: "retry", // Python: except Exception → nackUrl
		},
	}
}

func webhookifyClaims() Claims {
	return Claims{
		Document: "webhookify",
		Schedule: ScheduleClaims{
			// "Immediate", "+1 minute" … "+24 hours (total elapsed: 34h 36m)"
			Table: []Duration{0, mins, 5 * mins, 30 * mins, 2 * hour, 8 * hour, 24 * hour},
			Mode:  SincePrevious, Tail: TailStop, Attempts: 7, Window: 34*hour + 36*mins,
			Formula: &FormulaClaim{Factor: 2}, // "base_delay * 2^attempt"
			Jitter:  "a few seconds of randomness",
		},
		Ending: EndingClaims{Words: []string{"dead_letter"}, Recorded: true},
		Answers: AnswerClaims{
			// "or the response is malformed"
			Success: []string{"2xx"}, Failures: []AnswerClaim{{"2xx", "a malformed response"}},
			Permanent: []string{"400", "404", "410"}, Retried: []string{"429", "5xx"},
		},
		Replay: ReplayClaims{
			Offered: true,
			Routes:  []string{"/admin/dlq/replay/:id"}, Order: "none",
			Steps: []string{"work", "mark"}, Headers: "all", // headers: req.headers
		},
		Receive: []ReceiveClaims{
			// 604800
			{Name: "redis", Key: "body id or x-webhook-id", Steps: []string{"claim", "work", "ack"}, Forgets: true, Window: 168 * hour},
			{
				Name:     "database",
				Key:      "event_id",
				Steps:    []string{"claim", "work", "ack"},
				Atomic:   true,
				Window:   720 * hour,
				Cleanup:  720 * hour,
				Conflict: "duplicate",
			},
			// "1 hour TTL"; Object.keys(payload).sort()
			{Name: "content hash", Steps: []string{"claim", "work", "ack"}, Window: hour, Covers: "top_level"},
			{Name: "dead letter sample", Defaults: []int{0}}, // x-retry-count || '0'
			{Name: "alert sample", Defaults: []int{1}},       // x-retry-count || '1'
		},
		Facts: []FactClaim{
			{Provider: "stripe", Window: 72 * hour}, // "up to 3 days"
			{Provider: "github", Window: 24 * hour}, // "within 24 hours"
			// "19 times over approximately 48 hours"
			{Provider: "shopify", Retries: 19, Window: 48 * hour},
			{Provider: "twilio", Window: 24 * hour}, // "up to 24 hours"
		},
	}
}
