package cli

import (
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// Selection selects deliveries by flags.
type Selection struct {
	client.DeliveryFilter
	from, to Moment
	statuses []string
}

// Bind adds the flags. Without anyStatus, the deliveries are dead letters.
func (w *Selection) Bind(f *pflag.FlagSet, anyStatus bool) {
	f.StringVar(&w.Type, "type", "", "only this event type; * stands for any part of it")
	f.StringVar(&w.Key, "event-key", "", "only this ordering key")
	Sets(f, "event-key", "key")
	f.StringVar(&w.Tenant, "tenant", "", "only this tenant")
	f.Var(w.from.Past(), "since", "only events accepted at or after this time: 2026-01-31T12:00:00Z, or 6h for six hours ago")
	f.Var(&w.to, "until", "only events accepted before this time")
	f.StringVar(&w.Endpoint, "endpoint", "", "only this endpoint")
	f.StringVar((*string)(&w.ReasonCode), "reason-code", "", "only this reason: exhausted, permanent, rejected, expired, endpoint_gone, damaged")
	f.StringVar((*string)(&w.ErrorClass), "error-class", "", "only this last error: timeout, connect, dns, tls, reset, status_4xx, status_5xx, …")
	f.IntVar(&w.StatusCode, "status-code", 0, "only this answer to the last attempt")
	f.StringVar(&w.Text, "text", "", "only events with this text in their data; a page may be short, continue with --cursor")
	f.StringVar(&w.DeliveryFilter.Filter, "filter", "", "only what this search finds, as order_14 or 'status:dead endpoint:acme type:invoice.* code:5xx since:6h'")
	if !anyStatus {
		f.BoolVar(&w.Replayed, "replayed", false, "also dead letters that a replay has delivered since")
	} else {
		f.StringSliceVar(&w.statuses, "status", nil, "only these statuses")
		Form(f, "pending|held|delivered|failed|dropped|discarded|skipped", "status")
	}
}

// Filter is the selection for the client.
func (w *Selection) Filter() client.DeliveryFilter {
	f := w.DeliveryFilter
	f.From, f.To, f.Status = w.from.Time, w.to.Time, StatusesOf(w.statuses)
	return f
}

// StatusesOf are the statuses of a flag.
func StatusesOf(texts []string) (all []grapnel.Status) {
	for _, text := range texts {
		all = append(all, grapnel.Status(text))
	}
	return all
}
