//go:build full

package brokers

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/schemas"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/grapnelhq/grapnel"
)

// A source receives messages, which SQS hides from other consumers for a time, and deletes them.
// While a message of a FIFO group is hidden SQS delivers no other one of the group. So the order of
// a group holds when a consumer ends, and calls that run at the same time get different groups. A
// standard queue has no order.
//
// A message that is not deleted in time comes again with the same id. FIFO refuses to delete it by
// its first receipt: the consumer is opened again and gets the message once more.

var _ = registerReading("sqs", Reading{
	What: whatOfSQS, Options: []Option{regionOption}, Check: checkSQS,
	Open: func(ctx context.Context, t *grapnel.Target, p Place, n Network, _ string, most int) (Consumer, error) {
		c := &sqsConsumer{sqsDriver: newSQS(t, p, n), name: t.Name, most: most}
		c.url = c.base + "/" + t.Name
		c.polls.call = func(ctx context.Context) ([]types.Message, error) { return c.ask(ctx, min(most, sqsTen), pollFor) }
		if err := c.Connect(ctx); err != nil {
			c.overHTTP.Close()
			return nil, err
		}
		return c, nil
	},
})

const (
	sqsTen    = 10               // messages of one call
	sqsCalls  = 7                // more calls at once, after one that was full
	sqsHidden = 10 * time.Second // until a message that is not deleted comes again
)

type sqsConsumer struct {
	*sqsDriver
	name, url string
	most      int
	polls     longPoll[types.Message]
	open      []*string // receipts of the messages that were returned and not acknowledged
}

func (c *sqsConsumer) Receive(ctx context.Context, wait time.Duration) ([]Received, error) {
	all, err := c.polls.receive(ctx, wait)
	if err == nil && len(all) >= sqsTen {
		more := make([][]types.Message, min(sqsCalls, max(0, c.most/sqsTen-1)))
		err = atOnce(len(more), func(i int) (err error) {
			more[i], err = c.ask(ctx, sqsTen, 0)
			return err
		})
		all = append(all, slices.Concat(more...)...)
	}
	var received []Received
	for i := range all {
		c.open = append(c.open, all[i].ReceiptHandle)
		received = append(received, c.received(&all[i]))
	}
	if err != nil {
		return nil, err
	}
	return received, nil
}

// atOnce calls do with each number below n at the same time, and returns the first error.
func atOnce(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// ask is one call for messages.
func (c *sqsConsumer) ask(ctx context.Context, most int, wait time.Duration) ([]types.Message, error) {
	out, err := c.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &c.url, MaxNumberOfMessages: int32(most),
		WaitTimeSeconds: int32(wait / time.Second), VisibilityTimeout: int32(sqsHidden / time.Second), MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"MessageGroupId", "SentTimestamp"}}, withZeros)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, ErrTooMuch
	}
	if err != nil {
		return nil, refusedByAWS(err)
	}
	return out.Messages, nil
}

// withZeros sends a wait of zero, which the library leaves out: then the queue's own would count.
func withZeros(o *sqs.Options) { o.Protocol = zeroWait{o.Protocol} }

type zeroWait struct{ smithyhttp.ClientProtocol }

func (p zeroWait) SerializeRequest(ctx context.Context, op *smithy.OperationSchema, in smithy.Serializable, r *smithyhttp.Request) error {
	if is, ok := in.(*sqs.ReceiveMessageInput); ok && is.WaitTimeSeconds == 0 {
		in = zeroWaitInput{is}
	}
	return p.ClientProtocol.SerializeRequest(ctx, op, in, r)
}

type zeroWaitInput struct{ *sqs.ReceiveMessageInput }

func (v zeroWaitInput) Serialize(s smithy.ShapeSerializer) {
	s.WriteStruct(schemas.ReceiveMessageRequest)
	v.SerializeMembers(s)
	s.WriteInt32(schemas.ReceiveMessageRequest_WaitTimeSeconds, 0)
	s.CloseStruct()
}

// received reads a message, as Message.attributes writes it or as others do. The id of FIFO is not
// the event's: the queue may make it of the content, and equal messages are not the same event.
func (c *sqsConsumer) received(m *types.Message) Received {
	r := Received{Key: m.Attributes["MessageGroupId"], Body: []byte(aws.ToString(m.Body)), Place: c.name + " " + aws.ToString(m.MessageId)}
	if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
		r.At = time.UnixMilli(ms).UTC()
	}
	var others map[string]string
	for name, is := range m.MessageAttributes {
		value := cmp.Or(aws.ToString(is.StringValue), string(is.BinaryValue))
		if name == headersTogether && json.Unmarshal([]byte(value), &others) == nil {
			continue
		}
		if name == bodyEncoding && value == "base64" {
			if body, err := base64.StdEncoding.DecodeString(string(r.Body)); err == nil {
				r.Body = body
				continue
			}
		}
		if name == "webhook-id" && value == r.Key {
			r.Key = "" // Message.group made the group of an event without a key
		}
		r.Headers = append(r.Headers, grapnel.Header{Name: name, Value: value})
	}
	for name, value := range others {
		if _, has := m.MessageAttributes[name]; !has {
			r.Headers = append(r.Headers, grapnel.Header{Name: name, Value: value})
		}
	}
	return r
}

// tens calls do with ten of the receipts each, at the same time. A message for which SQS refuses the
// call is an error.
func tens(receipts []*string, do func(some []*string) (failed []types.BatchResultErrorEntry, err error)) error {
	chunks := slices.Collect(slices.Chunk(receipts, sqsTen))
	return atOnce(len(chunks), func(i int) error {
		failed, err := do(chunks[i])
		if err == nil && len(failed) > 0 {
			code := aws.ToString(failed[0].Code)
			return &Refusal{Status: cmp.Or(statuses[code], http.StatusBadRequest), Text: code + ": " + aws.ToString(failed[0].Message)}
		}
		return refusedByAWS(err)
	})
}

func (c *sqsConsumer) Ack(ctx context.Context, n int) error {
	err := tens(c.open[:n], func(some []*string) ([]types.BatchResultErrorEntry, error) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &c.url}
		for i, receipt := range some {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: receipt})
		}
		out, err := c.api.DeleteMessageBatch(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
	if err == nil {
		c.open = slices.Clone(c.open[n:])
	}
	return err
}

func (c *sqsConsumer) Close() {
	for _, m := range c.polls.close() {
		c.open = append(c.open, m.ReceiptHandle)
	}
	ctx, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	_ = tens(c.open, func(some []*string) ([]types.BatchResultErrorEntry, error) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &c.url}
		for i, receipt := range some { // seen again at once, so that the next consumer need not wait
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: receipt})
		}
		_, err := c.api.ChangeMessageVisibilityBatch(ctx, in)
		return nil, err
	})
	c.overHTTP.Close()
}
