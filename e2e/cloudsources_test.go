//go:build linux && prove

package e2e

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestCloudSourcesThroughKills is TestBrokerSourcesThroughKills with the servers that answer as
// those of clouds. What a killed server had received comes again after ten seconds.
func TestCloudSourcesThroughKills(t *testing.T) {
	for _, kind := range []string{"sqs.fifo", "pubsub"} {
		t.Run(kind, func(t *testing.T) {
			beside(t, busy)
			messages, keys, kills, pace := 200, 20, 3, 10*time.Millisecond
			if soak() {
				messages, kills, pace = 100_000, 60, 0
				if kind == "pubsub" {
					pace = 3 * time.Millisecond // an ordered pull looks through all messages that wait, so few may wait
				}
			}
			p := brokerProcess{t: t, dir: t.TempDir(), address: unusedAddress(t)}
			if kind == "pubsub" {
				consumed(t, newPubSubBroker(p, 10, true), messages, keys, kills, pace)
			} else {
				consumed(t, newMoto(p, kind), messages, keys, kills, pace)
			}
		})
	}
}

func (b *moto) source() map[string]any { return b.target() }

func (b *moto) producer(ctx context.Context) (func([]byte, map[string]string) error, func()) {
	url := aws.String(*b.base() + "/123456789012/" + b.queue())
	return func(body []byte, headers map[string]string) error {
		in := &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String(string(body)), MessageGroupId: aws.String(groupOf(headers)),
			MessageDeduplicationId: aws.String(headers["webhook-id"]), MessageAttributes: map[string]types.MessageAttributeValue{}}
		for name, value := range headers {
			in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
		}
		within, end := context.WithTimeout(ctx, confirmed)
		defer end()
		_, err := b.queues.SendMessage(within, in)
		return err
	}, func() {}
}

func (b *pubsubBroker) source() map[string]any {
	return map[string]any{"kind": "pubsub", "address": "http://" + b.address, "name": subscription}
}

func (b *pubsubBroker) producer(ctx context.Context) (func([]byte, map[string]string) error, func()) {
	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return broken(err)
	}
	return func(body []byte, headers map[string]string) error {
		within, end := context.WithTimeout(ctx, confirmed)
		defer end()
		_, err := pubsubpb.NewPublisherClient(conn).Publish(within, &pubsubpb.PublishRequest{Topic: topic,
			Messages: []*pubsubpb.PubsubMessage{{Data: body, Attributes: headers, OrderingKey: groupOf(headers)}}})
		return err
	}, func() { _ = conn.Close() }
}
