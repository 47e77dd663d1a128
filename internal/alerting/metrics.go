package alerting

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/store"
)

// counts are the metrics of alerts.
type counts struct {
	messages *prometheus.CounterVec
}

func newCounts() counts {
	return counts{messages: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "grapnel_alert_messages_total",
		Help: "Messages about alerts that were committed, by the service of their channel (endpoint for others) and type. Whether they arrived: the metrics of deliveries.",
	}, []string{"channel", "type"})}
}

// add counts the messages of a commit.
func (c *counts) add(e Engine, events []store.Incoming) {
	for i := range events {
		for _, t := range events[i].Targets {
			service := ""
			if ep, there := e.Endpoint(store.Everyone(), t.Endpoint); there && ep.Channel != nil {
				service = ep.Channel.Service
			}
			c.messages.WithLabelValues(cmp.Or(service, "endpoint"), events[i].Event.Type).Inc()
		}
	}
}

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(to chan<- *prometheus.Desc) { k.sent.messages.Describe(to) }

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(to chan<- prometheus.Metric) { k.sent.messages.Collect(to) }
