package server

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/tell/monitoring"
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

// Every metric of a server is on the page for operators.
func TestEveryMetricIsDocumented(t *testing.T) {
	o := options(t.TempDir())
	o.Traces.Endpoint = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	s := start(t, o)
	has := described{names: map[string]bool{}}
	s.life.measure(has)
	has.MustRegister(postgresNumbers(nil)...)
	has.MustRegister(s.traces.Collectors()...)
	has.MustRegister(s.rejected.calls, s.published.seconds, s.promises.judged.events)
	has.MustRegister(sendingNumbers(s.sender)...)
	has.MustRegister(callerNumbers(s.gate)...)
	has.MustRegister(backupNumbers(s.backups)...)
	page, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range has.names {
		if !regexp.MustCompile("`" + name + "[`{]").Match(page) {
			t.Errorf("docs/operating.md has no %s", name)
		}
	}
	if len(has.names) < 60 {
		t.Errorf("only %d metrics were found", len(has.names))
	}
}

// Every metric that the exported rules and the dashboard ask for is one that a server has, or that
// the rules record.
func TestMonitoringAsksForMetricsThatExist(t *testing.T) {
	s := start(t, options(t.TempDir()))
	has := described{names: map[string]bool{}}
	s.life.measure(has)
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
		for _, recorded := range regexp.MustCompile(`record: (grapnel_[a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
			has.names[recorded[1]] = true
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
