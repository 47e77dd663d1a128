package server

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/monitoring"
)

// described registers by noting descriptions: metrics with labels have no series before they are
// used.
type described struct {
	prometheus.Registerer
	names map[string]bool
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

// MustRegister notes the names of the collectors' metrics.
func (d described) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		all := make(chan *prometheus.Desc)
		go func() { c.Describe(all); close(all) }()
		for desc := range all {
			d.names[fqName.FindStringSubmatch(desc.String())[1]] = true
		}
	}
}

// Every metric that the exported rules and the dashboard ask for is one that a server has.
func TestMonitoringAsksForMetricsThatExist(t *testing.T) {
	s := start(t, options(t.TempDir()))
	has := described{names: map[string]bool{}}
	for _, c := range s.cells {
		c.measure(has)
	}
	families, err := s.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		has.names[f.GetName()] = true
	}
	asked := 0
	for _, write := range []func() ([]byte, error){monitoring.Rules, monitoring.Dashboard} {
		text, err := write()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bgrapnel_[a-z_]+`).FindAllString(string(text), -1) {
			asked++
			base := name
			for _, end := range []string{"_bucket", "_count"} {
				base = strings.TrimSuffix(base, end)
			}
			if !has.names[name] && !has.names[base] {
				t.Errorf("no server has the metric %s", name)
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d names were found", asked)
	}
}
