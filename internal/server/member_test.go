package server

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// member is a node with its proxy to the database.
type member struct {
	running
	*client.Client
	proxy *pgtest.Proxy
}

// measured is a metric of the node itself.
func (m member) measured(t *testing.T, name string) float64 {
	t.Helper()
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, name+" "); is {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func (m member) status(t *testing.T) *client.Cluster {
	t.Helper()
	c, err := m.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// waits returns once n consumers wait at a node.
func (m member) waits(t *testing.T, n float64) {
	t.Helper()
	poll(t, "consumers wait", func() bool { return m.measured(t, "grapnel_consumers_waiting") == n })
}
