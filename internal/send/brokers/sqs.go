//go:build full

package brokers

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/grapnelhq/grapnel"
)

// A message counts as delivered when SQS has answered with its id: then it is stored in several
// places. A FIFO queue drops a message whose event it has received within five minutes.

var _ = register(Kind{
	Name: "sqs", Plain: "http", Secure: "https", Port: "80", SecurePort: "443", What: whatOfSQS,
	Options: []Option{regionOption}, Check: checkSQS,
	Open: func(t *grapnel.Target, p Place, n Network) (Driver, error) { return newSQS(t, p, n), nil },
})

const whatOfSQS = "account and queue, as its URL has them"

func checkSQS(t *grapnel.Target, _ Place) *Fault {
	if strings.Contains(t.Name, "://") || strings.Trim(t.Name, "/") != t.Name {
		return &Fault{"name", "must be what the queue's URL has after its host, as in 123456789012/invoices"}
	}
	return keyFault(t)
}

type sqsDriver struct {
	*overHTTP
	api *sqs.Client
}

func newSQS(t *grapnel.Target, p Place, n Network) *sqsDriver {
	h := newHTTP(p, n)
	return &sqsDriver{h, sqs.New(sqs.Options{BaseEndpoint: &h.base, Region: regionOf(t, p), Credentials: accessKey(t), HTTPClient: h.client,
		Retryer: aws.NopRetryer{}})}
}

func (d *sqsDriver) Send(ctx context.Context, m *Message) (Receipt, error) {
	in := &sqs.SendMessageInput{QueueUrl: aws.String(d.base + "/" + m.Name), MessageAttributes: map[string]types.MessageAttributeValue{},
		MessageGroupId: m.group(), MessageDeduplicationId: m.once()}
	in.MessageBody = aws.String(m.attributes(func(name, value string) {
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}))
	out, err := d.api.SendMessage(ctx, in)
	if err != nil {
		return nil, refusedByAWS(err)
	}
	return receiptOf(map[string]*string{"message": out.MessageId, "sequence": out.SequenceNumber}), nil
}
