//go:build full

package brokers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/grapnelhq/grapnel"
)

// What sqs, sns and s3 have in common. The username of a target is the id of an access key and the
// password is its secret. The libraries sign requests and read answers. They look for no other
// keys, because no configuration of theirs is loaded; they repeat nothing, because of NopRetryer.

// regionOption is for addresses that do not name a region.
var regionOption = Option{Name: "region"}

// inHost finds the region in a host of AWS: "sqs.eu-central-1.amazonaws.com".
var inHost = regexp.MustCompile(`[.-]([a-z]{2,4}(?:-[a-z]+)+-\d+)\.(?:amazonaws\.com|api\.aws)`)

// regionOf is that of the option, else that of the address, else the one that other servers expect.
func regionOf(t *grapnel.Target, p Place) string {
	var named string
	if m := inHost.FindStringSubmatch(p.Hosts[0]); m != nil {
		named = m[1]
	}
	return cmp.Or(t.Options[regionOption.Name], named, "us-east-1")
}

func accessKey(t *grapnel.Target) aws.CredentialsProviderFunc {
	key := aws.Credentials{AccessKeyID: t.Username, SecretAccessKey: t.Password.Text}
	return func(context.Context) (aws.Credentials, error) { return key, nil }
}

// keyFault is the fault of a target without an access key.
func keyFault(t *grapnel.Target) *Fault {
	switch {
	case t.Username == "":
		return &Fault{"username", "is required: the id of an access key"}
	case t.Password.Text == "":
		return &Fault{"password", "is required: the secret of the access key"}
	}
	return nil
}

// ofTheirOwn are the headers that become attributes. A message of SQS has at most 10 attributes, so
// all other headers share the attribute "headers", and "body-encoding" is the last one.
const headersTogether, bodyEncoding = "headers", "body-encoding"

var ofTheirOwn = []string{"content-type", "grapnel-attempt", "grapnel-delivery", "grapnel-sequence", "grapnel-trigger",
	"webhook-id", "webhook-signature", "webhook-timestamp"}

// attributes calls set for each attribute of a message, and returns the body as text. A body that
// SQS would not take as text is in base64, and the attribute "body-encoding" says so.
func (m *Message) attributes(set func(name, value string)) (body string) {
	others := map[string]string{}
	for _, h := range m.Headers {
		if slices.Contains(ofTheirOwn, h.Name) && h.Value != "" {
			set(h.Name, h.Value)
		} else {
			others[h.Name] = h.Value
		}
	}
	if text, err := json.Marshal(others); err == nil && len(others) > 0 {
		set(headersTogether, string(text))
	}
	if isText(m.Body) {
		return string(m.Body)
	}
	set(bodyEncoding, "base64")
	return base64.StdEncoding.EncodeToString(m.Body)
}

// isText says whether XML could hold the body: SQS takes no other characters.
func isText(body []byte) bool {
	return utf8.Valid(body) && !strings.ContainsFunc(string(body), func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
	})
}

// group is the FIFO group of a message: its key, so that messages of a key stay in order. A message
// without a key is a group of its own. Nil: the queue or topic is none of FIFO.
func (m *Message) group() *string {
	if !strings.HasSuffix(m.Name, ".fifo") {
		return nil
	}
	id := cmp.Or(m.Key, m.ID)
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(id)) // it may have neither spaces nor letters beyond ASCII
		id = hex.EncodeToString(sum[:])
	}
	return &id
}

// once is the id by which FIFO drops a message that it has already received.
func (m *Message) once() *string {
	if !strings.HasSuffix(m.Name, ".fifo") {
		return nil
	}
	return &m.ID
}

// statuses are those of refusals whose status on the wire says something else.
var statuses = map[string]int{
	"AWS.SimpleQueueService.NonExistentQueue": 404, "QueueDoesNotExist": 404, "NotFound": 404, "NoSuchBucket": 404,
	"AccessDenied": 403, "AccessDeniedException": 403, "AuthorizationError": 403,
	"InvalidAccessKeyId": 401, "InvalidClientTokenId": 401, "UnrecognizedClientException": 401, "SignatureDoesNotMatch": 401,
	"InvalidSignatureException": 401, "IncompleteSignature": 401, "AuthFailure": 401, "MissingAuthenticationToken": 401,
	"RequestThrottled": 429, "Throttling": 429, "ThrottlingException": 429, "Throttled": 429, "OverLimit": 429, "KMSThrottling": 429,
	"EntityTooLarge": 413, "MetadataTooLarge": 413,
}

// refusedByAWS makes a refusal of an error that the service answered.
func refusedByAWS(err error) error {
	var answered *smithyhttp.ResponseError
	if !errors.As(err, &answered) || answered.Response == nil || answered.HTTPStatusCode() < 300 {
		return err
	}
	r := &Refusal{Status: answered.HTTPStatusCode(), Text: "without a reason"}
	var api smithy.APIError
	if errors.As(err, &api) {
		r.Text = strings.TrimSuffix(api.ErrorCode()+": "+api.ErrorMessage(), ": ")
		if status := statuses[api.ErrorCode()]; status != 0 {
			r.Status = status
		}
		// the only words by which SQS and SNS tell this one from other invalid parameters
		if strings.Contains(r.Text, "shorter than") || strings.Contains(r.Text, "too long") {
			r.Status = 413
		}
	}
	if r.Status < 400 || r.Status > 599 || r.Status == 410 { // a redirect; a 410 would disable the endpoint
		r.Status = 502
	}
	if seconds, err := strconv.ParseUint(answered.HTTPResponse().Header.Get("Retry-After"), 10, 16); err == nil {
		r.RetryAfter = time.Duration(seconds) * time.Second
	}
	return r
}

// receiptOf has the values that the service has answered.
func receiptOf(values map[string]*string) Receipt {
	r := Receipt{}
	for name, value := range values {
		if value != nil && *value != "" {
			r[name] = *value
		}
	}
	return r
}
