//go:build full

package brokers

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/grapnelhq/grapnel"
)

// The event's key is the record's key, so all events of a key are in one partition. A record counts
// as delivered when all replicas in sync have it. The producer is not idempotent: its sequence
// would begin anew with each connection, and a record is produced once for each attempt.

var _ = register(Kind{
	Name: "kafka", Plain: "kafka", Secure: "kafka+ssl", Port: "9092", SecurePort: "9093", Many: true, What: "topic",
	// how username and password are proved; plain if not given
	Options: []Option{{Name: "sasl", One: saslNames}},
	Open:    openKafka,
})

var saslNames = []string{"plain", "scram-sha-256", "scram-sha-512"}

type kafkaDriver struct {
	client *kgo.Client
	topic  string
}

func openKafka(t *grapnel.Target, p Place, n Network) (Driver, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(p.Hosts...), kgo.ClientID("grapnel"), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(),
		kgo.RecordRetries(0), kgo.RequestRetries(1), kgo.UnknownTopicRetries(0), kgo.ProducerLinger(0), kgo.MetadataMinAge(time.Second),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) }),
	}
	if t.Username != "" {
		options = append(options, kgo.SASL(saslOf(t)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return &kafkaDriver{client: client, topic: t.Name}, nil
}

func saslOf(t *grapnel.Target) sasl.Mechanism {
	auth := scram.Auth{User: t.Username, Pass: t.Password.Text}
	switch t.Options["sasl"] {
	case "scram-sha-256":
		return auth.AsSha256Mechanism()
	case "scram-sha-512":
		return auth.AsSha512Mechanism()
	}
	return plain.Auth{User: t.Username, Pass: t.Password.Text}.AsMechanism()
}

// Connect asks a broker of the cluster for its metadata, unless the client has it.
func (d *kafkaDriver) Connect(ctx context.Context) error {
	if len(d.client.DiscoveredBrokers()) > 0 {
		return nil
	}
	return refusedByKafka(d.client.Ping(ctx))
}

func (d *kafkaDriver) Send(ctx context.Context, m *Message) (Receipt, error) {
	r := &kgo.Record{Topic: d.topic, Value: m.Body}
	if m.Key != "" {
		r.Key = []byte(m.Key)
	}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
	}
	done := make(chan error, 1)
	d.client.Produce(ctx, r, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err := <-done:
		if err != nil {
			return nil, refusedByKafka(err)
		}
		return Receipt{"partition": strconv.Itoa(int(r.Partition)), "offset": strconv.FormatInt(r.Offset, 10)}, nil
	case <-ctx.Done(): // the library waits for the answer to a request that is on its way
		return nil, ctx.Err()
	}
}

func (d *kafkaDriver) Close() { d.client.Close() }

// refusedByKafka makes a refusal of an error code of Kafka.
func refusedByKafka(err error) error {
	var code *kerr.Error
	if !errors.As(err, &code) {
		if errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries) {
			return &Refusal{Status: 503, Text: "the cluster has no leader for the partition now"}
		}
		return err
	}
	status := 502
	switch code.Code {
	case kerr.UnknownTopicOrPartition.Code, kerr.InvalidTopicException.Code, kerr.UnknownTopicID.Code:
		status = 404
	case kerr.TopicAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code:
		status = 403
	case kerr.SaslAuthenticationFailed.Code, kerr.UnsupportedSaslMechanism.Code:
		status = 401
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code:
		status = 413
	case kerr.InvalidRecord.Code, kerr.CorruptMessage.Code, kerr.PolicyViolation.Code:
		status = 400
	case kerr.ThrottlingQuotaExceeded.Code:
		status = 429
	default:
		if code.Retriable {
			status = 503
		}
	}
	return &Refusal{Status: status, Text: code.Message + ": " + code.Description}
}
