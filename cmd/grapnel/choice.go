package main

import (
	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

// choice is which deliveries a command is about, as flags say it.
type choice struct {
	client.DeliveryFilter
	from, to      moment
	statuses      []string
	reason, class string
}

func (w *choice) flags(c *cobra.Command, anyStatus bool) {
	selecting(c, &w.Type, &w.Key, &w.Tenant, &w.from, &w.to)
	f := c.Flags()
	f.StringVar(&w.Endpoint, "endpoint", "", "only this endpoint")
	f.StringVar(&w.reason, "reason-code", "", "only what failed for this reason: exhausted, permanent, rejected, expired, endpoint_gone, damaged")
	f.StringVar(&w.class, "error-class", "", "only what ended its last attempt so: timeout, connect, dns, tls, reset, status_4xx, status_5xx, …")
	f.IntVar(&w.StatusCode, "status-code", 0, "only what was answered this at its last attempt")
	f.StringVar(&w.Text, "text", "", "only events with this text in their data; a page may be short, --cursor goes on")
	if !anyStatus {
		f.BoolVar(&w.Replayed, "replayed", false, "also those that were delivered since by being delivered again")
	} else {
		f.StringSliceVar(&w.statuses, "status", nil, "only these: pending, held, delivered, failed, dropped, discarded, skipped")
	}
}

func (w *choice) filter() client.DeliveryFilter {
	f := w.DeliveryFilter
	f.From, f.To, f.ReasonCode, f.ErrorClass = w.from.Time, w.to.Time, grapnel.ReasonCode(w.reason), policy.Class(w.class)
	f.Status = statusesOf(w.statuses)
	return f
}

func statusesOf(texts []string) (all []grapnel.Status) {
	for _, text := range texts {
		all = append(all, grapnel.Status(text))
	}
	return all
}
