package engine

import (
	"bufio"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// service is one service for people, as its documentation describes the request that it takes.
type service struct {
	url    string // of the channel
	host   string
	method string
	path   string // with the query
	header map[string]string
	fields map[string]string // gjson path → value; of a form: name → value
	form   bool
	gone   string            // the path for the resolved alert; empty: path
	over   map[string]string // fields of the resolved alert

	status int    // of the answer to the first request; 0: 200
	answer string // to the first request
	final  bool   // the first answer ends the delivery: there is no retry
}

// credentials are parts of those in the URLs of services.
var credentials = []string{"tOkEn", "ToKeN", "AzyoeNS", "wEbHoOk", "kEyOf", "KeYoF", "KeyOf", "bOtKeY", "pAsS", "Webc4MA", "uSeRkEy",
	"aPiToKeN", "tk_"}

// services are all services that speak HTTP.
var services = map[string]service{
	"slack": {
		url:  "slack://hook:WNA3PBYV6-F20DUQND3RQ-Webc4MAvoacrpPakR8phF0zi@webhook",
		host: "hooks.slack.com", path: "/services/WNA3PBYV6/F20DUQND3RQ/Webc4MAvoacrpPakR8phF0zi",
		fields: map[string]string{
			"text": "🔴 Endpoint &lt;shop&gt; fails", "attachments.0.color": "#d32f2f", "attachments.0.fallback": "🔴 Endpoint &lt;shop&gt; fails",
			"attachments.0.text": "No attempt has succeeded.\n<https://dash.example/e|Open>\n<https://dash.example/a|Acknowledge>",
		},
		over: map[string]string{"text": "🟢 Resolved: Endpoint &lt;shop&gt; fails", "attachments.0.color": "#2e7d32"},
	},
	"slack bot": {
		url: "slack://xoxb:123-456-tOkEnOfNoBoDy@C001CH4NN3L", host: "slack.com", path: "/api/chat.postMessage",
		header: map[string]string{"Authorization": "Bearer xoxb-123-456-tOkEnOfNoBoDy"},
		fields: map[string]string{"channel": "C001CH4NN3L", "text": "🔴 Endpoint &lt;shop&gt; fails"},
		status: 200, answer: `{"ok":false,"error":"internal_error"}`,
	},
	"discord": {
		url: "discord://wEbHoOkToKeN@123456789012345678", host: "discord.com", path: "/api/webhooks/123456789012345678/wEbHoOkToKeN?wait=true",
		fields: map[string]string{"allowed_mentions.parse.#": "0",
			"content": "🔴 Endpoint <shop> fails\nNo attempt has succeeded.\nOpen: https://dash.example/e\nAcknowledge: https://dash.example/a"},
		status: 429, answer: `{"message":"You are being rate limited.","retry_after":1.5,"global":false}`,
	},
	"telegram": {
		url: "telegram://123456789:AAtOkEnOfNoBoDy_0123456789@telegram?chats=-1001234567890:7", host: "api.telegram.org",
		path:   "/bot123456789:AAtOkEnOfNoBoDy_0123456789/sendMessage",
		fields: map[string]string{"chat_id": "-1001234567890", "message_thread_id": "7", "link_preview_options.is_disabled": "true"},
		status: 429, answer: `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 3","parameters":{"retry_after":3}}`,
	},
	"teams": {
		url:  "teams://?host=https%3A%2F%2Fprod-1.logic.azure.com%2Fworkflows%2Fx%2Finvoke%3Fsig%3DtOkEnOfNoBoDy",
		host: "prod-1.logic.azure.com", path: "/workflows/x/invoke?sig=tOkEnOfNoBoDy",
		fields: map[string]string{"type": "message", "attachments.0.contentType": "application/vnd.microsoft.card.adaptive",
			"attachments.0.content.type": "AdaptiveCard", "attachments.0.content.body.0.inlines.0.text": "🔴 Endpoint <shop> fails",
			"attachments.0.content.actions.0.url": "https://dash.example/e"},
		status: 200, answer: `Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429 with ContextId x`,
	},
	"teams connector": {
		url:  "teams://g@t/alt0123/owner/extra0123?host=shop.webhook.office.com",
		host: "shop.webhook.office.com", path: "/webhookb2/g@t/IncomingWebhook/alt0123/owner/extra0123",
		fields: map[string]string{"type": "message"},
	},
	"ntfy": {
		url: "ntfy://ntfy.sh/a-topic-of-nobody?token=tk_tOkEnOfNoBoDy", host: "ntfy.sh", path: "/",
		header: map[string]string{"Authorization": "Bearer tk_tOkEnOfNoBoDy"},
		fields: map[string]string{"topic": "a-topic-of-nobody", "title": "🔴 Endpoint <shop> fails", "message": "No attempt has succeeded.", "priority": "5",
			"click": "https://dash.example/e", "actions.#": "2", "actions.1.action": "view"},
		over: map[string]string{"priority": "3", "actions.#": "1"},
	},
	"gotify": {
		url: "gotify://push.example.com/AzyoeNS.D4iJLVa", host: "push.example.com", path: "/message",
		header: map[string]string{"X-Gotify-Key": "AzyoeNS.D4iJLVa"},
		fields: map[string]string{"title": "🔴 Endpoint <shop> fails", "priority": "8", `extras.client::notification.click.url`: "https://dash.example/e"},
	},
	"pushover": {
		url: "pushover://shoutrrr:aPiToKeNoFnObOdY@uSeRkEyOfNoBoDy/?devices=phone", host: "api.pushover.net",
		path: "/1/messages.json", form: true,
		fields: map[string]string{"token": "aPiToKeNoFnObOdY", "user": "uSeRkEyOfNoBoDy", "device": "phone", "priority": "1", "message": "No attempt has succeeded.",
			"title": "🔴 Endpoint <shop> fails", "url": "https://dash.example/e"},
	},
	"mattermost": {
		url: "mattermost://grapnel@chat.example.com/wEbHoOkToKeN/town", host: "chat.example.com", path: "/hooks/wEbHoOkToKeN",
		fields: map[string]string{"channel": "town", "username": "grapnel", "attachments.0.color": "#d32f2f"},
	},
	"rocketchat": {
		url: "rocketchat://rocket.example.com/tOkEnAaA/tOkEnBbB/alerts", host: "rocket.example.com", path: "/hooks/tOkEnAaA/tOkEnBbB",
		fields: map[string]string{"channel": "#alerts", "text": "🔴 Endpoint <shop> fails"},
		status: 200, answer: `{"success":false,"error":"no such channel"}`, final: true,
	},
	"googlechat": {
		url:  "googlechat://chat.googleapis.com/v1/spaces/AAAA/messages?key=kEyOfNoBoDy&token=tOkEnOfNoBoDy",
		host: "chat.googleapis.com", path: "/v1/spaces/AAAA/messages?key=kEyOfNoBoDy&token=tOkEnOfNoBoDy&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD",
		fields: map[string]string{"thread.threadKey": "alr_1"},
	},
	"matrix": {
		url: "matrix://:syt_tOkEnOfNoBoDy@matrix.example.com/?rooms=!room:example.com", host: "matrix.example.com", method: "PUT",
		path:   "/_matrix/client/v3/rooms/%21room:example.com/send/m.room.message/evt_fired",
		gone:   "/_matrix/client/v3/rooms/%21room:example.com/send/m.room.message/evt_resolved",
		header: map[string]string{"Authorization": "Bearer syt_tOkEnOfNoBoDy"}, fields: map[string]string{"msgtype": "m.text"},
		status: 429, answer: `{"errcode":"M_LIMIT_EXCEEDED","error":"Too many requests","retry_after_ms":2000}`,
	},
	"opsgenie": {
		url: "opsgenie://api.opsgenie.com/kEyOfNoBoDy", host: "api.opsgenie.com", path: "/v2/alerts", gone: "/v2/alerts/alr_1/close?identifierType=alias",
		header: map[string]string{"Authorization": "GenieKey kEyOfNoBoDy"},
		fields: map[string]string{"message": "Endpoint <shop> fails", "alias": "alr_1", "priority": "P1"},
		over:   map[string]string{"source": "grapnel"}, status: 202,
	},
	"pagerduty": {
		url: "pagerduty:///kEyOfNoBoDy0123", host: "events.pagerduty.com", path: "/v2/enqueue",
		fields: map[string]string{"routing_key": "kEyOfNoBoDy0123", "event_action": "trigger", "dedup_key": "alr_1", "payload.summary": "Endpoint <shop> fails",
			"payload.severity": "critical", "payload.source": "grapnel/default", "links.0.href": "https://dash.example/e"},
		over: map[string]string{"event_action": "resolve", "dedup_key": "alr_1"}, status: 202,
	},
	"zulip": {
		url: "zulip://bot%40example.com:bOtKeYoFnObOdY@zulip.example.com/?stream=alerts&topic=grapnel", host: "zulip.example.com", path: "/api/v1/messages", form: true,
		header: map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("bot@example.com:bOtKeYoFnObOdY"))},
		fields: map[string]string{"type": "stream", "to": "alerts", "topic": "grapnel"},
	},
	"bark": {
		url: "bark://:dEvIcEkEyOfNobody@bark.example.com", host: "bark.example.com", path: "/push",
		fields: map[string]string{"device_key": "dEvIcEkEyOfNobody", "title": "🔴 Endpoint <shop> fails", "level": "timeSensitive"},
		status: 200, answer: `{"code":500,"message":"push failed"}`,
	},
	"generic": {
		url: "generic+https://own.example.com/alerts?x=1&@Authorization=Bearer%20tOkEnOfNoBoDy", host: "own.example.com", path: "/alerts?x=1",
		header: map[string]string{"Authorization": "Bearer tOkEnOfNoBoDy"},
		fields: map[string]string{"title": "🔴 Endpoint <shop> fails", "rule": "endpoint_failing", "alert_id": "alr_1", "event_id": "evt_fired"},
	},
}

// check returns what a request has that its service would not take.
func (s *service) check(r *http.Request, body string, n int) (wrong []string) {
	path, fields, id := s.path, s.fields, "evt_fired"
	if n > 1 {
		id = "evt_resolved"
		if s.gone != "" {
			path = s.gone
		}
		fields = s.over
	}
	expect := func(what, is, want string) {
		if is != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", what, is, want))
		}
	}
	expect("method", r.Method, cmp.Or(s.method, "POST"))
	expect("path", r.URL.RequestURI(), path)
	expect("Grapnel-Delivery", r.Header.Get("Grapnel-Delivery"), "")
	expect("webhook-id", r.Header.Get("webhook-id"), "")
	for name, value := range s.header {
		expect(name, r.Header.Get(name), value)
	}
	if s.form {
		expect("content type", r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
		form, err := url.ParseQuery(body)
		if err != nil {
			return append(wrong, err.Error())
		}
		for name, value := range fields {
			expect(name, form.Get(name), value)
		}
		return wrong
	}
	expect("content type", r.Header.Get("Content-Type"), "application/json")
	if !gjson.Valid(body) {
		return append(wrong, "the body is no JSON: "+body)
	}
	for name, value := range fields {
		if strings.HasPrefix(value, "evt_") {
			value = id
		}
		expect(name, gjson.Get(body, name).String(), value)
	}
	return wrong
}

// authority makes a certificate for hosts, and the pool that trusts it.
func authority(t *testing.T, hosts []string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "services"}, DNSNames: hosts,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestEveryServiceGetsItsRequest: an alert that fires, the retry after a first answer that is no
// success, and its end reach every service in the form that the service takes, through the delivery
// machine. No attempt stores a credential.
func TestEveryServiceGetsItsRequest(t *testing.T) {
	for _, known := range channels.Services() {
		if _, has := services[known.Name]; !has && known.Name != "smtp" {
			t.Errorf("nothing checks %s", known.Name)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var hosts []string
		for _, s := range services {
			hosts = append(hosts, s.host)
		}
		certificate, pool := authority(t, hosts)
		var b *bench
		b = &bench{t: t, store: memory.New(), net: pipenet.New(), tune: func(o *Options) {
			b.sender.Close()
			b.sender = egress.New(egress.Options{Dial: b.net.Dial, RootCAs: pool})
			o.Sender = b.sender
		}}
		b.start(core.Options{})
		var serving sync.WaitGroup
		defer serving.Wait()
		defer b.close()
		var mu sync.Mutex
		seen, bodies := map[string]int{}, map[string]string{} // requests, the body of the first
		for name, s := range services {
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				first := s.answer != "" && seen[name] == 0
				n := seen[name]
				if seen[name]++; n == 0 {
					bodies[name] = string(body)
				}
				if s.answer == "" || s.final {
					n++
				}
				for _, wrong := range s.check(r, string(body), n) {
					t.Errorf("%s, request %d: %s", name, n, wrong)
				}
				if s.status > 0 && (first || s.answer == "") {
					w.WriteHeader(s.status)
				}
				if first {
					_, _ = io.WriteString(w, s.answer)
				} else {
					_, _ = io.WriteString(w, "ok")
				}
			})
			server := &http.Server{Handler: handler}
			defer server.Close()
			listener := tls.NewListener(b.net.Listen(s.host+":443"), &tls.Config{Certificates: []tls.Certificate{certificate}})
			serving.Go(func() { _ = server.Serve(listener) })
			b.channel("chn_"+strings.ReplaceAll(name, " ", "_"), s.url)
		}
		b.alert(grapnel.EventAlertFired)
		time.Sleep(time.Minute)
		b.alert(grapnel.EventAlertResolved)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		sent := map[string]float64{}
		for name, s := range services {
			want, first := 2, grapnel.Delivered
			if s.final {
				first = grapnel.Failed
			} else if s.answer != "" {
				want = 3
			}
			ds := b.deliveries("chn_" + strings.ReplaceAll(name, " ", "_"))
			if seen[name] != want || len(ds) != 2 {
				t.Errorf("%s got %d requests for %d deliveries, not %d", name, seen[name], len(ds), want)
			}
			// What people are shown is the request, without credentials.
			ep, _ := b.engine.Endpoint(store.Everyone(), "chn_"+strings.ReplaceAll(name, " ", "_"))
			target, err := channels.Read(s.url)
			if err != nil {
				t.Fatal(err)
			}
			event, _, err := b.store.Event(t.Context(), store.Everyone(), "default", "evt_fired")
			if err != nil {
				t.Fatal(err)
			}
			m, err := egress.ChannelMessage(&ep, event)
			if err != nil || m.Body != target.Redact(bodies[name]) || m.Method != target.Method || !strings.HasPrefix(m.URL, "https://"+s.host) && m.URL != "[redacted]" {
				t.Errorf("%s: shown is %+v, %v; sent was %s", name, m, err, bodies[name])
			}
			for _, secret := range credentials {
				if strings.Contains(m.URL+m.Body, secret) {
					t.Errorf("%s: shown is %s: %+v", name, secret, m)
				}
			}
			for i, d := range ds {
				if i == 0 && d.Status != first || i > 0 && d.Status != grapnel.Delivered {
					t.Errorf("%s: the delivery is %s: %s", name, d.Status, d.Reason)
				}
				for _, a := range d.Attempts {
					service, _, _ := strings.Cut(name, " ")
					sent[service+" "+resultOf(a.Class)]++
					if had := d.Sent(&a, "dlv_1"); had["Webhook-Id"] != "" || had["Content-Type"] == "" || had["User-Agent"] == "" {
						t.Errorf("%s: the headers of attempt %d are not those that were sent: %v", name, a.Number, had)
					}
					shown := fmt.Sprintf("%+v", a) + string(a.ResponseBody)
					for _, secret := range credentials {
						if strings.Contains(shown, secret) {
							t.Errorf("%s: attempt %d stores %s: %s", name, a.Number, secret, shown)
						}
					}
				}
			}
		}
		if got := counters(t, b.engine, "grapnel_alerts_sent_total"); !maps.Equal(got, sent) {
			t.Errorf("%v alerts were sent, the attempts are %v", got, sent)
		}
	})
}

// channel creates a channel.
func (b *bench) channel(id, raw string) {
	b.t.Helper()
	target, err := channels.Read(raw)
	if err != nil {
		b.t.Fatalf("%s: %s", id, err)
	}
	ep := grapnel.Endpoint{
		ID: id, Tenant: "default", URL: target.Masked, EventTypes: []string{grapnel.ChannelPattern}, Policy: channels.Policy(),
		Ordering: grapnel.OrderByKey, MaxConcurrency: 4, Format: grapnel.FormatStandard, Status: grapnel.EndpointEnabled,
		Channel: &grapnel.Channel{Service: target.Service, URL: grapnel.Secret{Text: raw}},
	}
	if _, err := b.engine.PutEndpoint(b.t.Context(), store.Everyone(), ep, store.With{}); err != nil {
		b.t.Fatal(err)
	}
}

// alert publishes an event about one alert.
func (b *bench) alert(kind string) {
	b.t.Helper()
	state := strings.TrimPrefix(kind, "grapnel.alert.")
	ev := &grapnel.Event{ID: "evt_" + state, Tenant: "default", Type: kind, Key: "alr_1", ContentType: grapnel.JSONType,
		OccurredAt: time.Now(), AcceptedAt: time.Now(),
		Data: []byte(`{"alert_id":"alr_1","rule":"endpoint_failing","state":"` + state + `","severity":"page","tenant":"default",
			"subject":{"kind":"endpoint","id":"ep_1","name":"shop"},"title":"Endpoint <shop> fails","text":"No attempt has succeeded.",
			"since":"2026-01-01T00:00:00Z","url":"https://dash.example/e","acknowledge_url":"https://dash.example/a","count":1,
			"alerts":["Endpoint <shop> fails"]}`)}
	if _, err := b.engine.Publish(b.t.Context(), []store.Incoming{{Event: ev}}, nil); err != nil {
		b.t.Fatal(err)
	}
}

// mailServer is an SMTP server that takes one mail per connection.
type mailServer struct {
	mu      sync.Mutex
	secure  *tls.Config // nil: it offers no STARTTLS
	refuse  map[string][]string
	mails   []string
	log     []string
	inClear bool // a password came without TLS
}

// serve speaks SMTP on a connection. refuse has the replies to give to a command, each once.
func (m *mailServer) serve(c net.Conn) {
	defer c.Close()
	r, secure, helloed := bufio.NewReader(c), false, false
	say := func(line string) { _, _ = io.WriteString(c, line+"\r\n") }
	say("220 mail.example.com ESMTP")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb := strings.ToUpper(strings.SplitN(line, " ", 2)[0])
		m.mu.Lock()
		m.log = append(m.log, line)
		refusals := m.refuse[verb]
		if len(refusals) > 0 {
			m.refuse[verb] = refusals[1:]
		}
		m.mu.Unlock()
		switch {
		case len(refusals) > 0 && refusals[0] != "":
			say(refusals[0])
		case verb == "EHLO":
			helloed = true
			say("250-mail.example.com")
			if m.secure != nil && !secure {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN LOGIN")
		case verb == "STARTTLS":
			say("220 go on")
			over := tls.Server(c, m.secure)
			if over.Handshake() != nil {
				return
			}
			c, r, secure = over, bufio.NewReader(over), true
		case verb == "AUTH":
			m.mu.Lock()
			m.inClear = m.inClear || !secure
			m.mu.Unlock()
			say("235 welcome")
		case verb == "DATA" && helloed:
			say("354 go on")
			var text strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(strings.TrimPrefix(line, "."))
			}
			m.mu.Lock()
			m.mails = append(m.mails, text.String())
			m.mu.Unlock()
			say("250 2.0.0 queued as 42")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// TestMail: alerts are mailed by STARTTLS with a password; a temporary refusal is repeated, a final
// one is a dead letter; the mails of one alert are one thread; and no text becomes a header.
func TestMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certificate, pool := authority(t, []string{"mail.example.com"})
		var b *bench
		b = &bench{t: t, store: memory.New(), net: pipenet.New(), tune: func(o *Options) {
			b.sender.Close()
			b.sender = egress.New(egress.Options{Dial: b.net.Dial, RootCAs: pool})
			o.Sender = b.sender
		}}
		b.start(core.Options{})
		var serving sync.WaitGroup
		defer serving.Wait()
		defer b.close()
		m := &mailServer{secure: &tls.Config{Certificates: []tls.Certificate{certificate}}, refuse: map[string][]string{
			"MAIL": {"451 try again later, alerts:pAsSwOrDoFnObOdY"}, "RCPT": {"", "550 no such user"},
		}}
		serve(b, &serving, "mail.example.com:587", m.serve)
		b.channel("chn_mail", "smtp://alerts:pAsSwOrDoFnObOdY@mail.example.com:587/?from=alerts@example.com&to=gone@example.com,oncall+x@example.com")
		plain := &mailServer{}
		serve(b, &serving, "plain.example.com:587", plain.serve)
		b.channel("chn_plain", "smtp://alerts:pAsSwOrDoFnObOdY@plain.example.com/?from=alerts@example.com&to=oncall@example.com")
		never := &mailServer{secure: m.secure, refuse: map[string][]string{"RCPT": {"550 no such user", "550 no such user"}}}
		serve(b, &serving, "mail.example.com:2525", never.serve)
		b.channel("chn_never", "smtp://mail.example.com:2525/?from=alerts@example.com&to=gone@example.com")
		b.alert(grapnel.EventAlertFired)
		time.Sleep(time.Minute)
		b.alert(grapnel.EventAlertResolved)
		time.Sleep(time.Minute)

		ds := b.deliveries("chn_mail")
		if len(ds) != 2 || ds[0].Status != grapnel.Delivered || len(ds[0].Attempts) != 2 || ds[1].Status != grapnel.Delivered {
			t.Fatalf("the mails' deliveries: %+v", ds)
		}
		if is := fmt.Sprintf("%+v %s", ds[0].Attempts[0], ds[0].Attempts[0].ResponseBody); strings.Contains(is, "pAsSwOrD") {
			t.Errorf("the attempt stores the password, which the server repeated: %s", is)
		}
		if text := ds[0].Attempts[1].Error; !strings.Contains(text, "oncall+x@example.com: 550 no such user") {
			t.Errorf("the recipient that was refused is not named: %q", text)
		}
		if d := b.deliveries("chn_never")[0]; d.Status != grapnel.Failed || len(d.Attempts) != 1 {
			t.Errorf("a final refusal: %s after %d attempts", d.Status, len(d.Attempts))
		}
		if d := b.deliveries("chn_plain")[0]; d.Status != grapnel.Pending || !strings.Contains(d.Attempts[0].Error, "no TLS") {
			t.Errorf("a password without TLS: %s, %q", d.Status, d.Attempts[0].Error)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.inClear || plain.inClear || len(m.mails) != 2 {
			t.Fatalf("%d mails; the password went in clear: %v %v", len(m.mails), m.inClear, plain.inClear)
		}
		first, second := mailOf(t, m.mails[0]), mailOf(t, m.mails[1])
		if first["Subject"] != "🔴 Endpoint <shop> fails" || second["Subject"] != "🟢 Resolved: Endpoint <shop> fails" {
			t.Errorf("the subjects are %q and %q", first["Subject"], second["Subject"])
		}
		if first["Message-Id"] != "<evt_fired@example.com>" || first["References"] != second["References"] || first["Message-Id"] == second["Message-Id"] {
			t.Errorf("ids: %q %q %q %q", first["Message-Id"], second["Message-Id"], first["References"], second["References"])
		}
		if !strings.Contains(first["body"], "No attempt has succeeded.\r\n") {
			t.Errorf("the text is %q", first["body"])
		}
	})
}

// mailOf reads a mail; its text is "body".
func mailOf(t *testing.T, text string) map[string]string {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name := range m.Header {
		if out[name], err = (&mime.WordDecoder{}).DecodeHeader(m.Header.Get(name)); err != nil {
			t.Fatal(err)
		}
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	out["body"] = string(body)
	return out
}

// serve gives each connection of a host to a function.
func serve(b *bench, serving *sync.WaitGroup, host string, one func(net.Conn)) {
	l := b.net.Listen(host)
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { one(c) })
		}
	})
}
