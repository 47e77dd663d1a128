//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// Servers that answer as those of clouds. They lose everything at their end, so they do not
// restart: they stand still for a while.

// TestCloudBrokersThroughKills is TestBrokersThroughKills with those.
func TestCloudBrokersThroughKills(t *testing.T) {
	for _, kind := range []string{"sqs", "sqs.fifo", "sns", "s3", "s3.batch", "pubsub"} {
		t.Run(kind, func(t *testing.T) {
			beside(t, busy)
			events, keys, kills, pace := 200, 20, 3, 20*time.Millisecond
			if soak() {
				events, kills, pace = 100_000, 100, 0
			}
			through(t, newCloudBroker(t, kind), events, keys, kills, pace)
		})
	}
}

func newCloudBroker(t *testing.T, kind string) broker {
	p := brokerProcess{t: t, dir: t.TempDir(), address: unusedAddress(t)}
	if kind == "pubsub" {
		return newPubSubBroker(p, 600, false)
	}
	return newMoto(p, kind)
}

// startOnce starts a broker, or lets it go on after a pause.
func (p *brokerProcess) startOnce() {
	if p.running == nil {
		p.start()
		return
	}
	p.must(syscall.Kill(-p.running.PID, syscall.SIGCONT))
}

func (p *brokerProcess) pause() { p.must(syscall.Kill(-p.running.PID, syscall.SIGSTOP)) }

// moto answers as AWS.
type moto struct {
	brokerProcess
	kind   string // one of brokers, sqs.fifo or s3.batch
	key    aws.CredentialsProviderFunc
	queues *sqs.Client
}

func newMoto(p brokerProcess, kind string) *moto {
	b := &moto{brokerProcess: p, kind: kind, key: func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "me", SecretAccessKey: "hush"}, nil
	}}
	text, err := exec.Command("../tools/moto.sh").Output()
	b.must(err)
	server := strings.TrimSpace(string(text))
	fifo, err := filepath.Abs("../tools/moto/fifo.py")
	b.must(err)
	// A call that is repeated without a word would skip the messages that a lost answer hid.
	b.queues = sqs.New(sqs.Options{BaseEndpoint: b.base(), Region: "us-east-1", Credentials: b.key, Retryer: aws.NopRetryer{}})
	b.command = func() *exec.Cmd {
		return exec.Command(filepath.Join(filepath.Dir(server), "python"), fifo, "-H", "127.0.0.1", "-p", b.port())
	}
	b.ready = func(ctx context.Context) error {
		if strings.HasPrefix(b.kind, "s3") {
			_, err := b.objects().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("events")})
			return err
		}
		in := &sqs.CreateQueueInput{QueueName: aws.String(b.queue())}
		if b.fifo() {
			in.Attributes = map[string]string{"FifoQueue": "true"}
		}
		if _, err := b.queues.CreateQueue(ctx, in); err != nil || b.kind != "sns" {
			return err
		}
		return b.subscribe(ctx)
	}
	return b
}

func (b *moto) base() *string { return aws.String("http://" + b.address) }

func (b *moto) fifo() bool { return b.kind == "sqs.fifo" }

func (b *moto) queue() string {
	if b.fifo() {
		return "events.fifo"
	}
	return "events"
}

func (b *moto) objects() *s3.Client {
	return s3.New(s3.Options{BaseEndpoint: b.base(), Region: "us-east-1", Credentials: b.key, UsePathStyle: true})
}

// subscribe lets the queue get the topic's messages, unchanged.
func (b *moto) subscribe(ctx context.Context) error {
	topics := sns.New(sns.Options{BaseEndpoint: b.base(), Region: "us-east-1", Credentials: b.key})
	if _, err := topics.CreateTopic(ctx, &sns.CreateTopicInput{Name: aws.String("events")}); err != nil {
		return err
	}
	_, err := topics.Subscribe(ctx, &sns.SubscribeInput{TopicArn: aws.String(topicARN), Protocol: aws.String("sqs"),
		Endpoint: aws.String("arn:aws:sqs:us-east-1:123456789012:events"), Attributes: map[string]string{"RawMessageDelivery": "true"}})
	return err
}

const topicARN = "arn:aws:sns:us-east-1:123456789012:events"

func (b *moto) start() { b.startOnce() }

func (b *moto) stop(bool) { b.pause() }

// dedupes: an object of an event that comes again replaces the one before.
func (b *moto) dedupes() bool { return b.fifo() || b.kind == "s3" }

func (b *moto) target() map[string]any {
	t := map[string]any{"kind": b.kind, "address": *b.base(), "name": "123456789012/" + b.queue(), "username": "me", "password": "hush"}
	switch b.kind {
	case "sqs.fifo":
		t["kind"] = "sqs"
	case "sns":
		t["name"] = topicARN
	case "s3":
		t["address"], t["name"] = *b.base()+"/events", "{event.type}/{event.id}.json"
	case "s3.batch":
		t["kind"], t["address"], t["name"], t["options"] = "s3", *b.base()+"/events", "{event.type}", map[string]any{"batch": "8", "batch_wait": "20"}
	}
	return t
}

func (b *moto) read() []brokered {
	if strings.HasPrefix(b.kind, "s3") {
		return b.readObjects()
	}
	return b.readQueue()
}

func (b *moto) readQueue() (all []brokered) {
	url := aws.String(*b.base() + "/123456789012/" + b.queue())
	for {
		out, err := b.queues.ReceiveMessage(b.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10,
			MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"MessageGroupId"}})
		b.must(err)
		if len(out.Messages) == 0 {
			return all
		}
		in := &sqs.DeleteMessageBatchInput{QueueUrl: url}
		for _, m := range out.Messages {
			got := brokered{key: m.Attributes["MessageGroupId"], body: []byte(*m.Body), headers: map[string]string{}}
			for name, value := range m.MessageAttributes {
				got.headers[name] = aws.ToString(value.StringValue)
			}
			all = append(all, got)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: m.MessageId, ReceiptHandle: m.ReceiptHandle})
		}
		_, err = b.queues.DeleteMessageBatch(b.t.Context(), in)
		b.must(err)
	}
}

// readObjects reads the objects of each key in the order of the events' numbers: a bucket has none.
func (b *moto) readObjects() (all []brokered) {
	objects := b.objects()
	pages := s3.NewListObjectsV2Paginator(objects, &s3.ListObjectsV2Input{Bucket: aws.String("events")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(b.t.Context())
		b.must(err)
		for _, is := range page.Contents {
			object, err := objects.GetObject(b.t.Context(), &s3.GetObjectInput{Bucket: aws.String("events"), Key: is.Key})
			b.must(err)
			body, err := io.ReadAll(object.Body)
			b.must(err)
			switch id := object.Metadata["webhook-id"]; {
			case b.kind == "s3.batch":
				all = append(all, b.linesOf(*is.Key, body)...)
			case *is.Key == "note.added/"+id+".json":
				all = append(all, brokered{body: body, headers: object.Metadata})
			default:
				b.t.Fatalf("the object %s has the metadata %v", *is.Key, object.Metadata)
			}
		}
	}
	number := func(m brokered) int {
		_, text, _ := strings.Cut(m.headers["webhook-id"], "-")
		n, _ := strconv.Atoi(text)
		return n
	}
	slices.SortFunc(all, func(x, y brokered) int { return number(x) - number(y) })
	return all
}

// linesOf are the messages of a file.
func (b *moto) linesOf(name string, file []byte) (all []brokered) {
	for line := range strings.Lines(string(file)) {
		var is struct {
			Headers map[string]string
			Body    string
		}
		b.must(json.Unmarshal([]byte(line), &is))
		all = append(all, brokered{body: []byte(is.Body), headers: is.Headers})
	}
	if !strings.HasPrefix(name, "note.added/") || len(all) == 0 || len(all) > 8 {
		b.t.Fatalf("the file %s has %d lines", name, len(all))
	}
	return all
}

// pubsubBroker is the server in memory that Google's library has for tests.
type pubsubBroker struct{ brokerProcess }

const (
	topic        = "projects/shop/topics/events"
	subscription = "projects/shop/subscriptions/events"
)

// newPubSubBroker makes one that waits so many seconds for the acknowledgement of a message. An
// ordered subscription delivers one message of a key at a time, and looks through all others.
func newPubSubBroker(p brokerProcess, seconds int32, ordered bool) *pubsubBroker {
	b := &pubsubBroker{p}
	path := filepath.Join(b.dir, "pubsub")
	if err := process.Link(path, "../tools/pubsub", "."); err != nil {
		p.t.Fatal(err)
	}
	b.command = func() *exec.Cmd { return exec.Command(path, b.address) }
	b.ready = func(ctx context.Context) error {
		return b.with(func(conn *grpc.ClientConn) error {
			if _, err := pubsubpb.NewPublisherClient(conn).CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
				return err
			}
			_, err := pubsubpb.NewSubscriberClient(conn).CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscription, Topic: topic,
				EnableMessageOrdering: ordered, AckDeadlineSeconds: seconds})
			return err
		})
	}
	return b
}

func (b *pubsubBroker) with(do func(*grpc.ClientConn) error) error {
	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(conn)
}

func (b *pubsubBroker) start() { b.startOnce() }

func (b *pubsubBroker) stop(bool) { b.pause() }

func (b *pubsubBroker) dedupes() bool { return false }

func (b *pubsubBroker) target() map[string]any {
	return map[string]any{"kind": "pubsub", "address": "http://" + b.address, "name": topic}
}

// read reads the messages in the order of their ids, which is that of their publishing.
func (b *pubsubBroker) read() (all []brokered) {
	type numbered struct {
		brokered
		id int
	}
	var got []numbered
	b.must(b.with(func(conn *grpc.ClientConn) error {
		for {
			ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
			out, err := pubsubpb.NewSubscriberClient(conn).Pull(ctx, &pubsubpb.PullRequest{Subscription: subscription, MaxMessages: 1000})
			cancel()
			if err != nil || len(out.ReceivedMessages) == 0 {
				return err
			}
			done := &pubsubpb.AcknowledgeRequest{Subscription: subscription}
			for _, m := range out.ReceivedMessages {
				id, err := strconv.Atoi(strings.TrimPrefix(m.Message.MessageId, "m"))
				if err != nil {
					return err
				}
				got = append(got, numbered{brokered{key: m.Message.OrderingKey, body: m.Message.Data, headers: m.Message.Attributes}, id})
				done.AckIds = append(done.AckIds, m.AckId)
			}
			if _, err := pubsubpb.NewSubscriberClient(conn).Acknowledge(b.t.Context(), done); err != nil {
				return err
			}
		}
	}))
	slices.SortFunc(got, func(x, y numbered) int { return x.id - y.id })
	for _, m := range got {
		all = append(all, m.brokered)
	}
	return all
}
