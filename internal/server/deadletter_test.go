package server

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestEveryDeadLetterInAChat: the transform in docs/trouble.md makes the body that a chat's webhook
// takes, for each dead letter.
func TestEveryDeadLetterInAChat(t *testing.T) {
	page, err := os.ReadFile("../../docs/trouble.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)--types (\S+) --transform @chat\.jq.*?    (\{text: [^\n]+\})\n`).FindStringSubmatch(string(page))
	if found == nil {
		t.Fatal("docs/trouble.md does not have the command")
	}
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	said := make(chan string, 100)
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said <- string(body)
	}))
	defer chat.Close()
	shop := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusUnprocessableEntity)
	}))
	defer shop.Close()
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: chat.URL, EventTypes: []string{found[1]},
		Transform: found[2]}); err != nil {
		t.Fatal(err)
	}
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: shop.URL, EventTypes: []string{"order.paid"},
		Policy: json.RawMessage(`{"classify":{"422":"fail"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "order.paid", Data: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		var body map[string]string
		if text := <-said; json.Unmarshal([]byte(text), &body) != nil || len(body) != 1 ||
			!strings.HasPrefix(body["text"], "Dead letter at "+ep.ID+": failed") || !strings.Contains(body["text"], "422") {
			t.Errorf("the chat got %s", text)
		}
	}
	d, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: ep.ID, Status: []grapnel.Status{grapnel.Failed}})
	if err != nil || len(d.Data) != 3 {
		t.Errorf("%d dead letters, %v", len(d.Data), err)
	}
}
