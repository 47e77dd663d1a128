package web

// troubled says whether deliveries failed in the hour, or many needed a second attempt: the hours
// that heart draws in red and amber.
func (h *hour) troubled() bool {
	return h.Failed > 0 || h.Attempts > 0 && h.FirstAttemptSuccess < h.Attempts*9/10
}

// heartSays is the heartbeat as a sentence.
func heartSays(hours []hour) string {
	var good, bad, quiet int
	for i := range hours {
		switch h := &hours[i]; {
		case h.troubled():
			bad++
		case h.Attempts > 0:
			good++
		default:
			quiet++
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{good, "without trouble"}, {bad, "with trouble"}, {quiet, "without attempts"}} {
		if part.n > 0 {
			parts = append(parts, many(part.n, "hour", "hours")+" "+part.what)
		}
	}
	return list(parts) + "."
}
