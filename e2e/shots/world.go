//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/policy"
)

// world is the full store, with the ids that pages need.
type world struct {
	server    *process.Server
	c         *client.Client
	receivers *http.Server
	base      string            // of the receivers
	endpoints map[string]string // their ids, by a short name
	customers []string          // ids of the many endpoints
	ids       map[string]string // by the first part of a page's path
}

// Names at the edge: as long as names can be, and in a script that runs from right to left.
const (
	longName = "Emshwiller-Vandersteen-Papadopoulos-International-Freight-Forwarding-and-Cold-Chain-Logistics" +
		"-GmbH-und-Co-KG-auf-Aktien, invoices of the northern warehouses (replaces the old address until the end of the year)"
	rightToLeft = "متجر القاهرة المركزي — إشعارات الفواتير والمدفوعات"
	customers   = 190
)

// answers are those of the receivers, by the first part of the path.
var answers = map[string]func(http.ResponseWriter){
	"ok": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
	"down": func(w http.ResponseWriter) {
		http.Error(w, "upstream connect error: connection failure", http.StatusServiceUnavailable)
	},
	"gone": func(w http.ResponseWriter) { http.Error(w, "this address has moved", http.StatusGone) },
	"unfit": func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"error":"unsupported currency","field":"data.currency","allowed":["EUR","USD"]}`)
	},
	"busy": func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "600")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	},
}

// receive starts the receivers.
func (w *world) receive(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.base = "http://" + listener.Addr().String()
	w.receivers = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if kind == "slow" {
			<-r.Context().Done() // until the sender gives up
			return
		}
		answers[kind](rw)
	})}
	go func() { _ = w.receivers.Serve(listener) }() // close waits for it by closing the listener
	return nil
}

func (w *world) close() {
	if w.receivers != nil {
		_ = w.receivers.Close()
	}
}

// policies are the named ones. One is quick, so that its deliveries end at once.
var policies = []string{
	`{"name":"billing","timeout":"15s","max_attempts":10,"max_age":"72h","jitter":0.1,"classify":{"422":"fail"},
		"breaker":{"failures":5,"window":"30s","probe":"30s","probe_max":"5m"}}`,
	`{"name":"two-tries","timeout":"1s","max_attempts":2,"jitter":0,"breaker":false,
		"schedule":{"mode":"since_previous","delays":["0s","1s"],"tail":"stop"}}`,
	`{"name":"no-circuit-long-timeouts-for-the-warehouse-gateway-in-rotterdam","timeout":"2s","breaker":false}`,
}

// recipients are the endpoints with a part in the story. {} stands for the receivers' address.
var recipients = []struct {
	name, url, title, policy string
	types                    []string
	status                   grapnel.EndpointStatus
}{
	{"acme", "{}/down/acme/webhooks", "acme-prod", "billing", []string{"invoice.*", "payment.*"}, ""},
	{"nordlys", "{}/ok/nordlys/wh", "nordlys", "standard", []string{"shipment.*"}, ""},
	{"ledger", "{}/unfit/ledger", "ledger", "billing", []string{"ledger.*"}, ""},
	{"billing", "{}/ok/billing/events", "billing-v2", "standard", []string{"account.*"}, ""},
	{"long", "{}/slow/" + strings.Repeat("very-long-path-", 20), longName, "no-circuit-long-timeouts-for-the-warehouse-gateway-in-rotterdam",
		[]string{"freight.container.temperature.threshold.exceeded.at.customs.checkpoint"}, ""},
	{"rtl", "{}/down/متجر/الفواتير", rightToLeft, "two-tries", []string{"receipt.*"}, ""},
	{"busy", "{}/busy/marketing", "marketing-automation", "standard", []string{"campaign.*"}, ""},
	{"gone", "{}/gone/old-crm", "old-crm", "standard", []string{"contact.*"}, ""},
	{"paused", "https://hooks.warehouse.example/in", "warehouse", "standard", []string{"stock.*"}, grapnel.EndpointPaused},
}

// settle creates policies, endpoints, queues, sources and keys.
func (w *world) settle(ctx context.Context) (err error) {
	if w.c, err = newClient(w.server); err != nil {
		return err
	}
	if err := w.receive(ctx); err != nil {
		return err
	}
	w.endpoints, w.ids = map[string]string{}, map[string]string{}
	for _, p := range policies {
		made, err := w.c.CreatePolicy(ctx, json.RawMessage(p))
		if err != nil {
			return err
		}
		if w.ids["policies"] == "" {
			w.ids["policies"] = made.ID
		}
	}
	add := func(e client.NewEndpoint) (string, error) {
		made, err := w.c.CreateEndpoint(ctx, e)
		if err != nil {
			return "", err
		}
		return made.ID, nil
	}
	for i := range customers {
		id, err := add(client.NewEndpoint{URL: fmt.Sprintf("%s/ok/customers/%03d", w.base, i+1), EventTypes: []string{"price.changed"},
			Description: fmt.Sprintf("Customer %03d, %s", i+1, []string{"Aarhus", "Bilbao", "Cork", "Dresden", "Espoo"}[i%5])})
		if err != nil {
			return err
		}
		w.customers = append(w.customers, id)
	}
	for _, r := range recipients {
		id, err := add(client.NewEndpoint{URL: strings.ReplaceAll(r.url, "{}", w.base), Description: r.title, Policy: r.policy,
			EventTypes: r.types, Status: r.status, Labels: map[string]string{"team": "billing"}})
		if err != nil {
			return err
		}
		w.endpoints[r.name] = id
	}
	w.ids["endpoints"] = w.endpoints["acme"]
	w.ids["ordering-keys"] = w.endpoints["acme"]
	return w.admit(ctx)
}

const sourceSecret = "a-secret-of-the-pictures"

// admit creates queues, sources and keys.
func (w *world) admit(ctx context.Context) error {
	for _, name := range []string{"orders", "search-index", strings.Repeat("nightly-export-of-everything-", 2) + "eu", "thumbnails"} {
		made, err := w.c.CreateQueue(ctx, client.NewQueue{Name: name, EventTypes: []string{name + ".*"}, Description: "Pulled by workers",
			Lease: policy.Duration(10 * time.Minute)})
		if err != nil {
			return err
		}
		w.endpoints[name] = made.ID
	}
	w.ids["queues"] = "orders"
	for _, s := range []client.NewSource{
		{Name: "github", Verify: client.NewVerify{Scheme: "github", Secret: sourceSecret}},
		{Name: "stripe", Verify: client.NewVerify{Scheme: "stripe", Secret: "whsec_" + sourceSecret}, OnUnverified: grapnel.Quarantine},
		{Name: "shopify", Verify: client.NewVerify{Scheme: "shopify", Secret: sourceSecret}, Status: grapnel.EndpointPaused},
		{Name: "المستودع الشمالي", Verify: client.NewVerify{Scheme: "github", Secret: sourceSecret}, Description: longName},
	} {
		made, err := w.c.CreateSource(ctx, s)
		if err != nil {
			return err
		}
		w.endpoints["source "+s.Name] = made.ID
	}
	w.ids["sources"] = w.endpoints["source github"]
	if err := w.describe(ctx); err != nil {
		return err
	}
	for _, k := range []client.NewKey{
		{Name: "checkout service", Scopes: []grapnel.Scope{grapnel.ScopePublish}},
		{Name: "on call", Scopes: []grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeReplay}},
		{Name: "workers of orders", Scopes: []grapnel.Scope{grapnel.ScopeConsume}},
		{Name: "globex", Tenant: "globex", Scopes: []grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeManage, grapnel.ScopeReplay}},
		{Name: longName[:128], Tenant: "tenant-with-a-name-that-goes-on-for-longer-than-expected", Scopes: []grapnel.Scope{grapnel.ScopeRead}},
	} {
		if _, err := w.c.CreateKey(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// schema is a JSON Schema whose data need these members.
func schema(members ...string) json.RawMessage {
	properties := map[string]any{"currency": map[string]any{"type": "string", "enum": []string{"EUR", "USD"}}}
	for _, m := range members {
		properties[m] = map[string]any{"type": []string{"string", "number"}, "description": "what the ledger calls " + m}
	}
	text, err := json.Marshal(map[string]any{"type": "object", "required": members, "properties": properties})
	if err != nil {
		panic(err) // text and lists of text can always be written
	}
	return text
}

// describe registers event types: one in two versions, the second of which breaks the first.
func (w *world) describe(ctx context.Context) error {
	var first *client.EventType
	for _, t := range []client.NewEventType{
		{Name: "invoice.paid", Description: "An invoice was paid in full", Schema: schema("invoice", "amount"),
			Example: json.RawMessage(`{"invoice":"inv_123","amount":100.00,"currency":"EUR"}`), Note: "as the old system sent it"},
		{Name: "shipment.sent", Description: "A parcel left the warehouse", Check: grapnel.CheckRefuse, Schema: schema("shipment")},
		{Name: "freight.container.temperature.threshold.exceeded.at.customs.checkpoint", Description: longName},
		{Name: "receipt.created", Description: rightToLeft},
	} {
		made, err := w.c.CreateEventType(ctx, t)
		if err != nil {
			return err
		}
		if first == nil {
			first = made
		}
	}
	w.ids["event-types"] = first.ID
	incident, err := w.c.OpenIncident(ctx, client.NewIncident{Title: "Publishing is slow", Text: "We look into it.", Components: []string{"accepting"}})
	if err != nil {
		return err
	}
	w.ids["incidents"] = incident.ID
	for _, ch := range []client.NewChannel{
		{URL: "generic+" + w.base + "/ok/alerts", Description: "on call", Severities: []string{grapnel.SeverityPage, grapnel.SeverityWarning}},
		{URL: "generic+" + w.base + "/down/alerts", Description: longName, Digest: policy.Duration(15 * time.Minute)},
	} {
		made, err := w.c.CreateChannel(ctx, ch)
		if err != nil {
			return err
		}
		w.ids["channels"] = made.ID
	}
	w.ids["alert-rules"] = "dead_letters"
	_, err = w.c.AddTypeVersion(ctx, first.ID, client.NewTypeVersion{Schema: schema("invoice", "amount", "customer"),
		Note: "the customer is needed"})
	return err
}
