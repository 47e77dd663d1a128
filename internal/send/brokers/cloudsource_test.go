//go:build full

package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/grapnelhq/grapnel"
)

// consume opens a consumer of a target.
func consume(t *testing.T, target *grapnel.Target, n Network, most int) Consumer {
	t.Helper()
	k, place, faults := ReadSource(target)
	if len(faults) > 0 {
		t.Fatal(faults[0])
	}
	c, err := k.Reading.Open(t.Context(), target, place, n, "grapnel-src_1", most)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fakeQueue answers as SQS does. It has messages by their receipts, which are deleted or given back.
type fakeQueue struct {
	mu      sync.Mutex
	waiting []map[string]any
	asked   []map[string]any // calls for messages
	deleted []string
	back    []string
	refuse  string // the receipt that is not deleted
	answer  string // in the place of messages
}

func (q *fakeQueue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	out := map[string]any{}
	switch _, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); call {
	case "ReceiveMessage":
		q.asked = append(q.asked, in)
		if q.answer != "" {
			_, _ = io.WriteString(w, q.answer)
			return
		}
		n := min(int(in["MaxNumberOfMessages"].(float64)), len(q.waiting))
		out["Messages"], q.waiting = q.waiting[:n], q.waiting[n:]
	case "DeleteMessageBatch", "ChangeMessageVisibilityBatch":
		var done, failed []map[string]any
		for _, e := range in["Entries"].([]any) {
			entry := e.(map[string]any)
			receipt := entry["ReceiptHandle"].(string)
			switch {
			case call != "DeleteMessageBatch":
				q.back = append(q.back, fmt.Sprint(receipt, " ", entry["VisibilityTimeout"]))
			case receipt == q.refuse:
				failed = append(failed, map[string]any{"Id": entry["Id"], "Code": "ReceiptHandleIsInvalid", "Message": "it has expired"})
				continue
			default:
				q.deleted = append(q.deleted, receipt)
			}
			done = append(done, map[string]any{"Id": entry["Id"]})
		}
		out["Successful"], out["Failed"] = done, failed
	}
	_ = json.NewEncoder(w).Encode(out)
}

func startQueue(t *testing.T, q *fakeQueue) *grapnel.Target {
	s := httptest.NewServer(q)
	t.Cleanup(s.Close)
	return awsTargets(s.Listener.Addr().String())["sqs"]
}

func sqsMessages(n int) (all []map[string]any) {
	for i := range n {
		all = append(all, map[string]any{"MessageId": fmt.Sprint("id", i), "ReceiptHandle": fmt.Sprint("r", i), "Body": fmt.Sprint(i),
			"Attributes": map[string]string{"MessageGroupId": "k", "SentTimestamp": "1700000000123"}})
	}
	return all
}

// TestSourceOfSQS: a consumer asks for more messages while calls are full, without a wait, deletes
// those that are acknowledged, says which SQS refuses to delete, and gives the others back.
func TestSourceOfSQS(t *testing.T) {
	q := &fakeQueue{waiting: sqsMessages(34)}
	c := consume(t, startQueue(t, q), bare(new(atomic.Int32)), 40)
	all, err := c.Receive(t.Context(), time.Minute)
	if err != nil || len(all) != 34 {
		t.Fatalf("%d messages: %v", len(all), err)
	}
	if m := all[0]; m.Place != "123456789012/events.fifo id0" || m.Key != "k" || string(m.Body) != "0" || m.At.UnixMilli() != 1700000000123 {
		t.Errorf("the first is %+v", m)
	}
	for i, in := range q.asked {
		wait := []any{20.0, 0.0}[min(i, 1)]
		if len(q.asked) != 4 || in["WaitTimeSeconds"] != wait || in["VisibilityTimeout"] != 10.0 || in["MaxNumberOfMessages"] != 10.0 {
			t.Errorf("call %d of %d is %v", i, len(q.asked), in)
		}
	}
	q.refuse = *c.(*sqsConsumer).open[11] // calls at the same time end in any order
	if err := c.Ack(t.Context(), 11); err != nil || len(q.deleted) != 11 {
		t.Errorf("%d are deleted: %v", len(q.deleted), err)
	}
	var refused *Refusal
	if err := c.Ack(t.Context(), 2); !errors.As(err, &refused) || refused.Status != 400 || !strings.Contains(refused.Text, "expired") {
		t.Errorf("a message that is not deleted: %v", err)
	}
	c.Close()
	if len(q.back) != 23 || !slices.Contains(q.back, q.refuse+" 0") || slices.Contains(q.back, "r0 0") {
		t.Errorf("%d are given back: %v", len(q.back), q.back)
	}
}

// TestRoundTripOfSQS: a source reads what a destination wrote, whatever the body and the headers.
func TestRoundTripOfSQS(t *testing.T) {
	q := &fakeQueue{}
	target := startQueue(t, q)
	for _, body := range []string{`{"n":1}`, "\x00\xff"} {
		m := cloudMessage(target)
		m.Body, m.Key = []byte(body), ""
		for i, h := range m.Headers {
			if h.Name == "webhook-id" {
				m.Headers[i].Value = m.ID
			}
		}
		attributes := map[string]any{}
		text := m.attributes(func(name, value string) {
			attributes[name] = map[string]string{"DataType": "String", "StringValue": value}
		})
		q.waiting = []map[string]any{{"MessageId": "1", "ReceiptHandle": "r", "Body": text, "MessageAttributes": attributes,
			"Attributes": map[string]string{"MessageGroupId": *m.group()}}}
		c := consume(t, target, bare(new(atomic.Int32)), 3)
		all, err := c.Receive(t.Context(), time.Minute)
		if err != nil || len(all) != 1 || string(all[0].Body) != body || all[0].Key != "" || all[0].ID != "" {
			t.Fatalf("%q became %+v: %v", body, all, err)
		}
		got := all[0].Headers
		slices.SortFunc(got, func(a, b grapnel.Header) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(m.Headers, func(a, b grapnel.Header) int { return strings.Compare(a.Name, b.Name) })
		if !slices.Equal(got, m.Headers) {
			t.Errorf("the headers are %v, want %v", got, m.Headers)
		}
		c.Close()
	}
}

// TestForeignMessagesOfSQS: attributes that only look like those of a destination stay as they are.
func TestForeignMessagesOfSQS(t *testing.T) {
	text := func(value string) any { return map[string]string{"DataType": "String", "StringValue": value} }
	attributes := map[string]any{"headers": text("[1]"), "body-encoding": text("base64"), "raw": map[string]any{"DataType": "Binary", "BinaryValue": "eHl6"}}
	q := &fakeQueue{waiting: []map[string]any{{"MessageId": "1", "ReceiptHandle": "r", "Body": "not base64!", "MessageAttributes": attributes}}}
	c := consume(t, startQueue(t, q), bare(new(atomic.Int32)), 3)
	defer c.Close()
	all, err := c.Receive(t.Context(), time.Minute)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d messages: %v", len(all), err)
	}
	if m := all[0]; string(m.Body) != "not base64!" || len(m.Headers) != 3 || !m.At.IsZero() || !slices.Contains(m.Headers, grapnel.Header{Name: "raw", Value: "xyz"}) {
		t.Errorf("%+v", m)
	}
}

// TestOddAnswersOfSQS: a queue that is empty costs its wait and not more, an answer beyond the
// memory is told from a broken one, and more messages than were asked for are read.
func TestOddAnswersOfSQS(t *testing.T) {
	q := &fakeQueue{}
	target := startQueue(t, q)
	began := time.Now()
	c := consume(t, target, bare(new(atomic.Int32)), 3)
	if all, err := c.Receive(t.Context(), 50*time.Millisecond); len(all) > 0 || err != nil || time.Since(began) < 50*time.Millisecond {
		t.Errorf("an empty queue: %d, %v after %v", len(all), err, time.Since(began))
	}
	c.Close()
	many, _ := json.Marshal(map[string]any{"Messages": sqsMessages(12)})
	large := `{"Messages":[{"Body":"` + strings.Repeat("x", 65<<10) + `"}]}`
	for _, answer := range []string{large, "<html>", string(many)} {
		q.answer = answer
		c := consume(t, target, bare(new(atomic.Int32)), 3)
		all, err := c.Receive(t.Context(), time.Minute)
		if answer == string(many) {
			if err != nil || len(all) != 12 {
				t.Errorf("%d messages: %v", len(all), err)
			}
		} else if err == nil || errors.Is(err, ErrTooMuch) != (answer == large) {
			t.Errorf("an answer of %d bytes: %v", len(answer), err)
		}
		c.Close()
	}
}

// TestConsumersThatEndWhileTheyWait: a call that waits ends with its consumer, whose Receive waits
// no longer than it was told.
func TestConsumersThatEndWhileTheyWait(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	fake, sub := startSubscriber(t)
	fake.pull = func(ctx context.Context) ([]*pubsubpb.ReceivedMessage, error) { <-ctx.Done(); return nil, ctx.Err() }
	for _, target := range []*grapnel.Target{awsTargets(s.Listener.Addr().String())["sqs"], sub} {
		began := time.Now()
		c := consume(t, target, bare(new(atomic.Int32)), 3)
		for range 2 {
			if all, err := c.Receive(t.Context(), 20*time.Millisecond); len(all) > 0 || err != nil {
				t.Errorf("%s: %d, %v", target.Kind, len(all), err)
			}
		}
		c.Close()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it took %v", target.Kind, took)
		}
	}
}

// subscriber answers as Pub/Sub does.
type subscriber struct {
	pubsubpb.UnimplementedSubscriberServer
	pull        func(context.Context) ([]*pubsubpb.ReceivedMessage, error)
	asked       *pubsubpb.PullRequest
	acked, back []string
	failed      error
}

func (s *subscriber) Pull(ctx context.Context, r *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	s.asked = r
	all, err := s.pull(ctx)
	return &pubsubpb.PullResponse{ReceivedMessages: all}, err
}

func (s *subscriber) Acknowledge(_ context.Context, r *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	if s.failed == nil {
		s.acked = append(s.acked, r.AckIds...)
	}
	return &emptypb.Empty{}, s.failed
}

func (s *subscriber) ModifyAckDeadline(_ context.Context, r *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	if r.AckDeadlineSeconds == 0 {
		s.back = append(s.back, r.AckIds...)
	}
	return &emptypb.Empty{}, nil
}

func startSubscriber(t *testing.T) (*subscriber, *grapnel.Target) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, is := grpc.NewServer(), &subscriber{}
	pubsubpb.RegisterSubscriberServer(s, is)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return is, &grapnel.Target{Kind: "pubsub", Address: "http://" + l.Addr().String(), Name: "projects/p/subscriptions/s"}
}

// TestSourceOfPubSub: a consumer acknowledges by the ids of acknowledgements, oldest first, and
// gives all other messages back.
func TestSourceOfPubSub(t *testing.T) {
	s, target := startSubscriber(t)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s.pull = func(context.Context) (all []*pubsubpb.ReceivedMessage, _ error) {
		for i := range 3 {
			m := &pubsubpb.PubsubMessage{MessageId: fmt.Sprint(i), OrderingKey: "k", Data: []byte("x"), PublishTime: timestamppb.New(at),
				Attributes: map[string]string{"webhook-id": "w"}}
			all = append(all, &pubsubpb.ReceivedMessage{AckId: fmt.Sprint("a", i), Message: m})
		}
		return all, nil
	}
	c := consume(t, target, bare(new(atomic.Int32)), 5000)
	all, err := c.Receive(t.Context(), time.Minute)
	if err != nil || len(all) != 3 || s.asked.MaxMessages != 1000 || s.asked.Subscription != target.Name {
		t.Fatalf("%d messages of %v: %v", len(all), s.asked, err)
	}
	headers := []grapnel.Header{{Name: "webhook-id", Value: "w"}}
	if m := all[1]; m.Key != "k" || m.Place != target.Name+" 1" || !m.At.Equal(at) || string(m.Body) != "x" || !slices.Equal(m.Headers, headers) {
		t.Errorf("the message is %+v", m)
	}
	if err := c.Ack(t.Context(), 1); err != nil || !slices.Equal(s.acked, []string{"a0"}) {
		t.Errorf("acknowledged are %v: %v", s.acked, err)
	}
	s.failed = status.Error(codes.FailedPrecondition, "too late")
	var refused *Refusal
	if err := c.Ack(t.Context(), 1); !errors.As(err, &refused) || refused.Status != 400 {
		t.Errorf("a refused acknowledgement: %v", err)
	}
	c.Close()
	if !slices.Equal(s.back, []string{"a1", "a2"}) {
		t.Errorf("given back are %v", s.back)
	}
}

// TestOddAnswersOfPubSub: a server that waits for longer than a call is asked again over another
// connection, and an answer beyond the memory is told from a refusal.
func TestOddAnswersOfPubSub(t *testing.T) {
	s, target := startSubscriber(t)
	var dials atomic.Int32
	for code, want := range map[codes.Code]bool{codes.DeadlineExceeded: false, codes.NotFound: true} {
		s.pull = func(context.Context) ([]*pubsubpb.ReceivedMessage, error) { return nil, status.Error(code, "because") }
		dials.Store(0)
		c := consume(t, target, bare(&dials), 3)
		_, err := c.Receive(t.Context(), 100*time.Millisecond)
		if err == nil && !want {
			_, err = c.Receive(t.Context(), 100*time.Millisecond)
		}
		if (err != nil) != want || dials.Load() != map[bool]int32{true: 1, false: 2}[want] {
			t.Errorf("%v: %v, %d connections", code, err, dials.Load())
		}
		c.Close()
	}
	s.pull = func(context.Context) ([]*pubsubpb.ReceivedMessage, error) {
		return []*pubsubpb.ReceivedMessage{{AckId: "a", Message: &pubsubpb.PubsubMessage{Data: make([]byte, 65<<10)}}}, nil
	}
	c := consume(t, target, bare(&dials), 3)
	defer c.Close()
	if _, err := c.Receive(t.Context(), time.Minute); !errors.Is(err, ErrTooMuch) {
		t.Errorf("a large answer: %v", err)
	}
}

// TestSourcesOfClouds: what is wrong with a target that is read is said by its field.
func TestSourcesOfClouds(t *testing.T) {
	for field, target := range map[string]*grapnel.Target{
		"":               {Kind: "pubsub", Address: "http://a", Name: "projects/p/subscriptions/s"},
		"name":           {Kind: "pubsub", Address: "http://a", Name: "projects/p/topics/t"},
		"password":       {Kind: "pubsub", Address: "https://a", Name: "projects/p/subscriptions/s"},
		"username":       {Kind: "sqs", Address: "https://a", Name: "1/q"},
		"options/region": {Kind: "pubsub", Address: "http://a", Name: "projects/p/subscriptions/s", Options: map[string]string{"region": "x"}},
		"kind":           {Kind: "s3", Address: "https://a/b", Name: "x"},
	} {
		_, _, faults := ReadSource(target)
		if got := append(faults, &Fault{}); got[0].Field != field {
			t.Errorf("%s %s: the fault is %v, want %q", target.Kind, target.Name, got[0], field)
		}
	}
}
