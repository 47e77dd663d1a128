//go:build prove

package server

import (
	"bytes"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/sign"
)

// arrived is a request that a receiver got.
type arrived struct {
	header http.Header
	body   []byte
}

// curlByHand stands for curl where there is none: the shell takes the words apart, and the test
// sends what they say.
const curlByHand = `curl() { for word; do printf '%s\0' "$word"; done; [ "$word" != @- ] || cat; }; `

// runCopied runs a copied command as a shell does.
func runCopied(t *testing.T, line string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err == nil {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v %s", line, err, out)
		}
		return
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", curlByHand+line).Output()
	if err != nil {
		t.Fatalf("%s\n%v", line, err)
	}
	words := bytes.Split(out, []byte{0})
	body, header, address := words[len(words)-2], http.Header{}, ""
	if string(body) == "@-" {
		body = words[len(words)-1]
	}
	for i, word := range words {
		switch name, value, _ := strings.Cut(string(word), ":"); {
		case i > 0 && string(words[i-1]) == "-H":
			header.Set(strings.TrimSuffix(name, ";"), strings.TrimSpace(value))
		case i > 1 && string(words[i-2]) == "-X":
			address = string(word)
		}
	}
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header = header
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// TestTheCopiedRequestIsTheOneThatWasSent: for every format and preset, and for bodies that shells,
// pages and clipboards could change, the pane of a delivery shows the bytes that the receiver got,
// the copied command sends them again, and a verifier accepts it.
func TestTheCopiedRequestIsTheOneThatWasSent(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	b := newBrowser(t, s.URL())
	b.signIn(testKey)
	got := make(chan arrived, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- arrived{r.Header, body}
	}))
	t.Cleanup(receiver.Close)
	type published struct{ contentType, body string }
	bodies := map[string]published{
		"JSON":         {"application/json", `{"a": 1.00, "text":"it's $HOME \"and\" !! \\ <b>&amp; ü 🎣"}`},
		"lines":        {"text/plain", "@file\n'quoted'\n\n  and `id` $(id)\n"},
		"no text":      {"application/octet-stream", "\xff\x00\r\n\x1b[2J"},
		"empty":        {"text/plain", ""},
		"with CR":      {"text/csv", "a,b\r\n1,2\r\n"},
		"with a tab":   {"application/json", "{\n\t\"a\": 1\n}"},
		"looks like -": {"text/plain", "-d @/etc/passwd"},
	}
	shapes := map[string]client.NewEndpoint{
		"standard":    {},
		"raw":         {Format: grapnel.FormatRaw},
		"cloudevents": {Format: grapnel.FormatCloudEvents},
		"batch":       {Format: grapnel.FormatBatch},
		"transform":   {Transform: `{was: (.data // .data_base64), "it's": "\u0000"}`},
		"svix":        {Signing: grapnel.SigningSvix},
	}
	presets, err := c.Policies(t.Context(), client.ListFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range presets.Data {
		shapes["preset "+preset.Name] = client.NewEndpoint{Policy: preset.Name}
	}
	copied := regexp.MustCompile(`data-copy="([^"]*)"[^>]*>Copy request as curl`)
	shown := regexp.MustCompile(`(?s)<summary>Raw bytes</summary><pre class="body">(.*?)</pre>`)
	for shape, in := range shapes {
		in.URL = receiver.URL + "/hook?a=[1]&b={2}"
		in.EventTypes = []string{"to." + strings.ReplaceAll(shape, " ", "-")}
		in.Headers = map[string]string{"X-Own": "secret-of-receiver", "X-Empty": ""}
		ep, err := c.CreateEndpoint(t.Context(), in)
		if err != nil {
			t.Fatal(shape, err)
		}
		verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{ep.Secret}})
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range bodies {
			p, err := c.PublishRaw(t.Context(), client.RawEvent{Type: in.EventTypes[0], ContentType: data.contentType, Data: []byte(data.body)})
			if err != nil {
				t.Fatal(shape, name, err)
			}
			sent := <-got
			var d client.Delivery
			poll(t, "it is delivered", func() bool {
				ev, err := c.EventOf(t.Context(), "default", p.ID)
				if err != nil || len(ev.Deliveries) != 1 {
					t.Fatal(ev, err)
				}
				d = ev.Deliveries[0]
				return d.Status == grapnel.Delivered
			})
			is, err := c.SentBody(t.Context(), d.ID, 1)
			if body, some := is.Content(); err != nil || !some || is.Verdict != "signed" || !bytes.Equal(body, sent.body) {
				t.Errorf("%s, %s: sent %q, the body made again is %q, %s, %v", shape, name, sent.body, body, is.Sentence, err)
			}
			_, _, page := b.ask("GET", "/deliveries/"+d.ID, nil)
			if pane := shown.FindStringSubmatch(page); is.Body != nil && *is.Body != "" && strings.IndexByte(*is.Body, '\r') < 0 &&
				(pane == nil || html.UnescapeString(pane[1]) != string(sent.body)) {
				t.Errorf("%s, %s: sent %q, the page shows %q", shape, name, sent.body, pane)
			}
			found := copied.FindStringSubmatch(page)
			if found == nil {
				t.Errorf("%s, %s: the page has no command to copy", shape, name)
				continue
			}
			runCopied(t, html.UnescapeString(found[1]))
			again := <-got
			if !bytes.Equal(again.body, sent.body) || again.header.Get("Content-Type") != sent.header.Get("Content-Type") {
				t.Errorf("%s, %s: sent %q, the copied command sends %q, %v", shape, name, sent.body, again.body, again.header)
			}
			if _, err := verifier.Verify(again.header, again.body); err != nil {
				t.Errorf("%s, %s: the copied request is refused: %v", shape, name, err)
			}
			if again.header.Get("X-Own") != "[redacted]" || !strings.Contains(page, "Replace [redacted] by the value of x-") {
				t.Errorf("%s, %s: the endpoint's own header is %q", shape, name, again.header.Get("X-Own"))
			}
		}
	}
}
