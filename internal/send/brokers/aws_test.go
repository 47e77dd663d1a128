//go:build full

package brokers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// bare is a network without a guard, which counts its connections.
func bare(dials *atomic.Int32) Network {
	dial := func(ctx context.Context, at string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", at)
	}
	return Network{Dial: dial, Bare: dial, Conns: 4, Answer: 64 << 10, Batch: 100}
}

// awsTargets are one of each kind, of a server on an address without a scheme.
func awsTargets(at string) map[string]*grapnel.Target {
	all := map[string]*grapnel.Target{
		"sqs": {Address: "http://" + at, Name: "123456789012/events.fifo"},
		"sns": {Address: "http://" + at, Name: "arn:aws:sns:eu-west-1:123456789012:events"},
		"s3":  {Address: "http://" + at + "/bucket", Name: "a/{event.id}"},
	}
	for kind, t := range all {
		t.Kind, t.Username, t.Password.Text = kind, "AKID", "very-secret"
	}
	return all
}

func cloudMessage(t *grapnel.Target) *Message {
	m := &Message{ID: "evt_1", Type: "note.added", Delivery: "dlv_1", Key: "a key", Name: strings.ReplaceAll(t.Name, "{event.id}", "evt_1"), Body: []byte(`{"n":1}`)}
	for _, name := range append([]string{"user-agent", "x-empty"}, ofTheirOwn...) {
		m.Headers = append(m.Headers, grapnel.Header{Name: name, Value: strings.TrimPrefix("v-"+name, "v-x-empty")})
	}
	return m
}

// sendTo sends one message to a target.
func sendTo(ctx context.Context, t *testing.T, target *grapnel.Target, n Network, m *Message) (Receipt, error) {
	t.Helper()
	k, place, faults := Read(target)
	if len(faults) > 0 {
		t.Fatal(faults[0])
	}
	d, err := k.Open(target, place, n)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Connect(ctx); err != nil {
		return nil, err
	}
	return d.Send(ctx, m)
}

// TestAnswersOfAWS: each answer is a refusal of one status or no refusal at all, and no request is
// made twice or follows a redirect.
func TestAnswersOfAWS(t *testing.T) {
	queryError := func(code, text string) string {
		return "<ErrorResponse><Error><Code>" + code + "</Code><Message>" + text + "</Message></Error></ErrorResponse>"
	}
	s3Error := func(code string) string { return "<Error><Code>" + code + "</Code><Message>no</Message></Error>" }
	sqsError := func(code, text string) string {
		return fmt.Sprintf(`{"__type":"com.amazonaws.sqs#%s","message":%q}`, code, text)
	}
	for _, tc := range []struct {
		kind   string
		status int
		body   string
		want   int // 0: an error that is no refusal
	}{
		{"sqs", 400, sqsError("QueueDoesNotExist", "gone"), 404},
		{"sqs", 400, sqsError("UnrecognizedClientException", "who"), 401},
		{"sqs", 400, sqsError("AccessDeniedException", "no"), 403},
		{"sqs", 400, sqsError("InvalidParameterValue", "Reason: Message must be shorter than 1048576 bytes."), 413},
		{"sqs", 400, sqsError("InvalidMessageContents", "bad"), 400},
		{"sqs", 400, sqsError("RequestThrottled", "slow"), 429},
		{"sqs", 503, "", 503}, {"sqs", 410, "", 502}, {"sqs", 302, "", 502}, {"sqs", 500, "<html>", 500},
		{"sqs", 200, "<html>", 0},
		{"sns", 404, queryError("NotFound", "no topic"), 404},
		{"sns", 403, queryError("InvalidClientTokenId", "who"), 401},
		{"sns", 403, queryError("AuthorizationError", "no"), 403},
		{"sns", 400, queryError("InvalidParameter", "Invalid parameter: Message too long"), 413},
		{"sns", 307, "", 502},
		{"s3", 404, s3Error("NoSuchBucket"), 404}, {"s3", 403, s3Error("SignatureDoesNotMatch"), 401}, {"s3", 403, s3Error("AccessDenied"), 403},
		{"s3", 400, s3Error("EntityTooLarge"), 413}, {"s3", 503, s3Error("SlowDown"), 503}, {"s3", 301, s3Error("PermanentRedirect"), 502},
		{"s3", 500, strings.Repeat("x", 128<<10), 500},
	} {
		t.Run(fmt.Sprint(tc.kind, tc.status, tc.want), func(t *testing.T) {
			var requests, dials atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			defer s.Close()
			target := awsTargets(s.Listener.Addr().String())[tc.kind]
			_, err := sendTo(t.Context(), t, target, bare(&dials), cloudMessage(target))
			var refused *Refusal
			if errors.As(err, &refused) != (tc.want != 0) || err == nil ||
				refused != nil && (refused.Status != tc.want || refused.RetryAfter != 7*time.Second) {
				t.Errorf("the error is %v, want %d", err, tc.want)
			}
			if requests.Load() != 1 || dials.Load() != 1 {
				t.Errorf("%d requests by %d connections", requests.Load(), dials.Load())
			}
			if err != nil && strings.Contains(err.Error(), "very-secret") {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

// TestSlowAWS: a service that does not answer costs an attempt its time and not more.
func TestSlowAWS(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	}))
	defer s.Close()
	defer close(release)
	for kind, target := range awsTargets(s.Listener.Addr().String()) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := sendTo(ctx, t, target, bare(new(atomic.Int32)), cloudMessage(target))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", kind, err)
		}
		cancel()
	}
}

// TestMessagesOfSQS: a message has at most 10 attributes and text that XML can hold, and a key of
// any characters is a group of FIFO.
func TestMessagesOfSQS(t *testing.T) {
	var got struct {
		QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId string //nolint:revive // names of the API
		MessageAttributes                                             map[string]struct{ StringValue string }
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		if key := r.Header.Get("Authorization"); !strings.Contains(key, "Credential=AKID/") || !strings.Contains(key, "/us-east-1/sqs/") {
			t.Errorf("it is signed by %s", key)
		}
		_, _ = io.WriteString(w, `{"MessageId":"m-1","SequenceNumber":"18"}`)
	}))
	defer s.Close()
	target := awsTargets(s.Listener.Addr().String())["sqs"]
	m := cloudMessage(target)
	m.Body = []byte("\x00\xff")
	receipt, err := sendTo(t.Context(), t, target, bare(new(atomic.Int32)), m)
	if err != nil || receipt["message"] != "m-1" || receipt["sequence"] != "18" {
		t.Fatalf("the receipt is %v: %v", receipt, err)
	}
	if n := len(got.MessageAttributes); n != 10 ||
		got.MessageAttributes["headers"].StringValue != `{"user-agent":"v-user-agent","x-empty":""}` ||
		got.MessageAttributes["webhook-id"].StringValue != "v-webhook-id" || got.MessageAttributes["body-encoding"].StringValue != "base64" {
		t.Errorf("the %d attributes are %v", n, got.MessageAttributes)
	}
	if text, err := base64.StdEncoding.DecodeString(got.MessageBody); err != nil || string(text) != string(m.Body) {
		t.Errorf("the body is %q: %v", got.MessageBody, err)
	}
	if got.MessageDeduplicationId != "evt_1" || len(got.MessageGroupId) != 64 || got.QueueUrl != target.Address+"/"+target.Name {
		t.Errorf("the message is %+v", got)
	}
	m.Key, m.Name = "k1", "q.fifo"
	if is := m.group(); is == nil || *is != "k1" {
		t.Errorf("the group of k1 is %v", is)
	}
	if m.Name = "q"; m.group() != nil || m.once() != nil {
		t.Error("a message of a usual queue has a group")
	}
}

// TestTargetsOfClouds: what is wrong with a target is said by its field, and never with its secret.
func TestTargetsOfClouds(t *testing.T) {
	with := func(kind string, change func(*grapnel.Target)) *grapnel.Target {
		target := awsTargets("sqs.eu-central-1.amazonaws.com")[kind]
		change(target)
		return target
	}
	for _, tc := range []struct {
		target *grapnel.Target
		field  string
	}{
		{with("sqs", func(*grapnel.Target) {}), ""},
		{with("sqs", func(t *grapnel.Target) { t.Name = "https://x/y" }), "name"},
		{with("sqs", func(t *grapnel.Target) { t.Username = "" }), "username"},
		{with("sqs", func(t *grapnel.Target) { t.Password.Text = "" }), "password"},
		{with("sqs", func(t *grapnel.Target) { t.Address += "/path" }), "address"},
		{with("sqs", func(t *grapnel.Target) { t.Options = map[string]string{"zone": "x"} }), "options/zone"},
		{with("sns", func(t *grapnel.Target) { t.Name = "events" }), "name"},
		{with("s3", func(t *grapnel.Target) { t.Address = "https://s3.example.com" }), "address"},
		{with("s3", func(t *grapnel.Target) { t.Address = "https://s3.example.com/a/b" }), "address"},
		{with("s3", func(t *grapnel.Target) { t.Name = "{event.type}.json" }), "name"},
		{&grapnel.Target{Kind: "pubsub", Address: "http://a", Name: "projects/p/topics/t"}, ""},
		{&grapnel.Target{Kind: "pubsub", Address: "http://a", Name: "t"}, "name"},
		{&grapnel.Target{Kind: "pubsub", Address: "https://a", Name: "projects/p/topics/t"}, "password"},
		{&grapnel.Target{Kind: "pubsub", Address: "https://a", Name: "projects/p/topics/t", Password: grapnel.Secret{Text: `{"type":"very-secret"}`}}, "password"},
	} {
		_, _, faults := Read(tc.target)
		got := ""
		if len(faults) > 0 {
			got = faults[0].Field
		}
		if got != tc.field || len(faults) > 0 && strings.Contains(faults[0].Detail, "very-secret") {
			t.Errorf("%+v: the fault is at %q (%v), want %q", tc.target, got, faults, tc.field)
		}
	}
	for host, want := range map[string]string{"sqs.eu-central-1.amazonaws.com:443": "eu-central-1", "s3.us-gov-west-1.amazonaws.com:443": "us-gov-west-1",
		"sqs.cn-north-1.amazonaws.com.cn:443": "cn-north-1", "minio.example.com:9000": "us-east-1"} {
		if is := regionOf(&grapnel.Target{}, Place{Hosts: []string{host}}); is != want {
			t.Errorf("the region of %s is %s", host, is)
		}
	}
}

// TestKeysOfObjects: what a publisher writes into a key of an event leads to no other object.
func TestKeysOfObjects(t *testing.T) {
	var dials atomic.Int32
	target := awsTargets("127.0.0.1:1")["s3"]
	k, place, _ := Read(target)
	d, err := k.Open(target, place, bare(&dials))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := cloudMessage(target)
	for _, name := range []string{"a/../evt_1", "./evt_1", ".."} {
		m.Name = name
		var refused *Refusal
		if _, err := d.Send(t.Context(), m); !errors.As(err, &refused) || refused.Status != 400 || dials.Load() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
