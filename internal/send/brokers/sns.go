//go:build full

package brokers

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/grapnelhq/grapnel"
)

// A message counts as delivered when SNS has answered with its id. Its subscribers are for SNS to
// serve. A FIFO topic drops a message whose event it has received within five minutes.

var _ = register(Kind{
	Name: "sns", Plain: "http", Secure: "https", Port: "80", SecurePort: "443", What: "topic's ARN",
	Options: []Option{regionOption},
	Check: func(t *grapnel.Target, _ Place) *Fault {
		if !strings.HasPrefix(t.Name, "arn:") {
			return &Fault{"name", "must be the ARN of a topic, as in arn:aws:sns:eu-central-1:123456789012:invoices"}
		}
		return keyFault(t)
	},
	Open: openSNS,
})

type snsDriver struct {
	*overHTTP
	api *sns.Client
}

func openSNS(t *grapnel.Target, p Place, n Network) (Driver, error) {
	h := newHTTP(p, n)
	return &snsDriver{h, sns.New(sns.Options{BaseEndpoint: &h.base, Region: regionOf(t, p), Credentials: accessKey(t), HTTPClient: h.client,
		Retryer: aws.NopRetryer{}})}, nil
}

func (d *snsDriver) Send(ctx context.Context, m *Message) (Receipt, error) {
	in := &sns.PublishInput{TopicArn: &m.Name, MessageAttributes: map[string]types.MessageAttributeValue{}, MessageGroupId: m.group(),
		MessageDeduplicationId: m.once()}
	in.Message = aws.String(m.attributes(func(name, value string) {
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}))
	out, err := d.api.Publish(ctx, in)
	if err != nil {
		return nil, refusedByAWS(err)
	}
	return receiptOf(map[string]*string{"message": out.MessageId, "sequence": out.SequenceNumber}), nil
}
