//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/sign"
)

// relay does the HTTP work of a webhook sender and nothing else: an event answered with 202 is in a
// channel, and lost when the process ends. It has no order, no retries, no storage.
type relay struct {
	bearer    []byte
	endpoints []relayEndpoint
}

type relayEndpoint struct {
	url    string
	signer *sign.Signer
	work   chan *grapnel.Event
}

// relayOrder is the orchestrator's order to the relay.
type relayOrder struct {
	Bearer  string
	URLs    []string
	Secret  string
	Workers int // per endpoint
}

// relayRoom is the capacity of a channel; publishers wait while it is full.
const relayRoom = 1024

func newRelay() verbs {
	return verbs{"serve": taking(serveRelay)}
}

// serveRelay starts the relay, which runs until the process ends with its orchestrator, and returns
// its address.
func serveRelay(o relayOrder) (string, error) {
	r := &relay{bearer: []byte("Bearer " + o.Bearer)}
	for _, url := range o.URLs {
		signer, err := sign.NewSigner(o.Secret)
		if err != nil {
			return "", err
		}
		e := relayEndpoint{url: url, signer: signer, work: make(chan *grapnel.Event, relayRoom)}
		r.endpoints = append(r.endpoints, e)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Workers, DisableCompression: true}}
		for range o.Workers {
			go e.deliver(client)
		}
	}
	return serveHTTP("POST /v1/events", r.publish)
}

// serveHTTP serves one route on loopback until the process ends with its orchestrator, and returns
// its address.
func serveHTTP(pattern string, handler http.HandlerFunc) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), nil
}

func (r *relay) publish(w http.ResponseWriter, req *http.Request) {
	if subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), r.bearer) != 1 {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	if media, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";"); media != grapnel.JSONType {
		http.Error(w, "unsupported media type", http.StatusUnsupportedMediaType)
		return
	}
	now := time.Now().UTC()
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	e, err := readEvent(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	e.ID, e.OccurredAt = grapnel.NewID(grapnel.EventPrefix, now, rand.Reader), now
	for i := range r.endpoints {
		select {
		case r.endpoints[i].work <- e:
		case <-req.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", grapnel.JSONType)
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(w, `{"id":%q,"accepted_at":%q,"deliveries":%d,"duplicate":false}`, e.ID,
		now.Format("2006-01-02T15:04:05.000000Z"), len(r.endpoints))
}

// readEvent reads and checks an event as Grapnel does.
func readEvent(body []byte) (*grapnel.Event, error) {
	if !gjson.ValidBytes(body) {
		return nil, errors.New("this is not JSON")
	}
	e := &grapnel.Event{}
	unknown := ""
	gjson.ParseBytes(body).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "type":
			e.Type = value.Str
		case "key":
			e.Key = value.Str
		case "data":
			e.Data = body[value.Index : value.Index+len(value.Raw)]
		default:
			unknown = name.Str
		}
		return unknown == ""
	})
	switch {
	case unknown != "":
		return nil, fmt.Errorf("unknown field %q", unknown)
	case !grapnel.ValidType(e.Type):
		return nil, errors.New("type is wrong")
	case e.Data == nil:
		return nil, errors.New("data is missing")
	case len(e.Key) > grapnel.MaxKeyLength:
		return nil, errors.New("key is too long")
	}
	return e, nil
}

// deliver sends the channel's events, one request after the other.
func (e *relayEndpoint) deliver(client *http.Client) {
	for ev := range e.work {
		if err := e.send(client, ev); err != nil {
			continue // the relay has no memory for failures
		}
	}
}

func (e *relayEndpoint) send(client *http.Client, ev *grapnel.Event) error {
	body := make([]byte, 0, len(ev.Data)+160)
	body = append(body, `{"id":"`...)
	body = append(body, ev.ID...)
	body = append(body, `","type":"`...)
	body = append(body, ev.Type...)
	body = append(body, `","timestamp":"`...)
	body = ev.OccurredAt.AppendFormat(body, "2006-01-02T15:04:05.000000Z")
	body = append(body, `","data":`...)
	body = append(append(body, ev.Data...), '}')
	now := time.Now()
	signature, err := e.signer.Sign(ev.ID, now, body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	h := req.Header
	h.Set("Content-Type", grapnel.JSONType)
	h.Set("User-Agent", "relay")
	h.Set("Webhook-Id", ev.ID)
	h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("Webhook-Signature", signature)
	h.Set("Grapnel-Attempt", "1")
	h.Set("Grapnel-Delivery", ev.ID)
	h.Set("Grapnel-Sequence", "0")
	h.Set("Grapnel-Trigger", string(grapnel.TriggerSchedule))
	h.Set("Grapnel-Node", "relay")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return errors.Join(err, resp.Body.Close())
}
