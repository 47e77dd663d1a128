package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// The oldest queues have their names in metrics, all others share a label, and the series of a
// queue that is deleted end: any number of queues over time has a bounded number of series.
func TestLabelsOfQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New())
		defer w.halt()
		w.broker.bounds.Labels = 2
		var queues []*grapnel.Endpoint
		for i := range 4 {
			queues = append(queues, w.queue(func(ep *grapnel.Endpoint) {
				ep.ID, ep.Queue.Name = fmt.Sprintf("que_%d", i), fmt.Sprintf("q%d", i)
			}))
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(w.broker.metrics.settled)
		series := func() (all []string) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(w.broker.metrics.settled)
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range families[0].GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "queue" {
						all = append(all, l.GetValue())
					}
				}
			}
			slices.Sort(all)
			return slices.Compact(all)
		}
		for _, q := range queues {
			w.broker.label(q.ID)
		}
		if got := fmt.Sprint([]string{w.broker.label("que_0"), w.broker.label("que_1"), w.broker.label("que_2"), w.broker.label("que_3")}); got !=
			"[q0 q1 other other]" {
			t.Errorf("the labels are %s", got)
		}
		if err := w.engine.DeleteEndpoint(t.Context(), store.Everyone(), queues[0].ID, grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		w.broker.Labels()
		if got := fmt.Sprint(series()); got != "[other q1 q2]" {
			t.Errorf("after a deletion there are series of %s", got)
		}
	})
}
