//go:build full

package brokers

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/grapnelhq/grapnel"
)

// Each event is an object, unless the target has batches (s3batch.go). The object's key has the id
// of the event or of the delivery. So another attempt replaces the object by the same one, and no
// object takes the place of another event's.

var _ = register(Kind{
	Name: "s3", Plain: "http", Secure: "https", Port: "80", SecurePort: "443", Path: "bucket", What: "key of an event's object", Filled: true,
	Options: []Option{regionOption, {Name: OptionBatch, Number: true}, {Name: OptionWait, Number: true}},
	Check: func(t *grapnel.Target, p Place) *Fault {
		switch {
		case p.Path == "" || strings.ContainsAny(p.Path, "/:"):
			return &Fault{"address", "must have the bucket as its path, as in https://s3.eu-central-1.amazonaws.com/invoices"}
		case t.Options[OptionBatch] == "" && !strings.Contains(t.Name, "{event.id}") && !strings.Contains(t.Name, "{delivery.id}"):
			return &Fault{"name", "must have {event.id} or {delivery.id}, so that each event has an object of its own; or give options/batch"}
		}
		return keyFault(t)
	},
	Open: openS3,
})

type s3Driver struct {
	*overHTTP
	api     *s3.Client
	bucket  string
	batches *batcher // nil: none
}

func openS3(t *grapnel.Target, p Place, n Network) (Driver, error) {
	h := newHTTP(p, n)
	d := &s3Driver{overHTTP: h, bucket: p.Path, api: s3.New(s3.Options{BaseEndpoint: &h.base, Region: regionOf(t, p),
		Credentials: accessKey(t), HTTPClient: h.client, Retryer: aws.NopRetryer{},
		// other servers know neither the checksums that only AWS has, nor its other names of buckets
		UsePathStyle: true, RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		DisableMultiRegionAccessPoints: true, DisableS3ExpressSessionAuth: aws.Bool(true), ContinueHeaderThresholdBytes: -1,
	})}
	d.batches = batcherOf(d, t.Options, n)
	return d, nil
}

func (d *s3Driver) Send(ctx context.Context, m *Message) (Receipt, error) {
	if parts := strings.Split(m.Name, "/"); slices.Contains(parts, ".") || slices.Contains(parts, "..") { // a placeholder's value made it so
		return nil, &Refusal{Status: 400, Text: "the object's key of this event has a part that leads elsewhere"}
	}
	if d.batches != nil {
		return d.batches.send(ctx, m)
	}
	in := &s3.PutObjectInput{Key: &m.Name, Body: bytes.NewReader(m.Body), Metadata: map[string]string{}}
	for _, h := range m.Headers {
		if h.Name == "content-type" {
			in.ContentType = &h.Value
		} else {
			in.Metadata[h.Name] = h.Value
		}
	}
	return d.put(ctx, in)
}

func (d *s3Driver) put(ctx context.Context, in *s3.PutObjectInput) (Receipt, error) {
	in.Bucket = &d.bucket
	out, err := d.api.PutObject(ctx, in)
	if err != nil {
		return nil, refusedByAWS(err)
	}
	return receiptOf(map[string]*string{"object": in.Key, "version": out.VersionId, "etag": out.ETag}), nil
}

// Close also waits for a batch whose senders have all given up.
func (d *s3Driver) Close() {
	d.close()
	if d.batches != nil {
		d.batches.writing.Wait()
	}
	d.overHTTP.Close()
}
