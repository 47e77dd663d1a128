//go:build full

package brokers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// With the option "batch" messages that are sent at about the same time share an object: a file of
// lines of JSON. Each Send returns when the object is stored, so a batch changes nothing about what
// counts as delivered. It has at most as many messages as the endpoint has requests at once.
//
// The name of each object is new. Objects named by their messages could replace one another: after
// a crash a message comes again, in the company of others, while those of before are recorded.

// OptionBatch is the most messages of an object, OptionWait the milliseconds that the first waits.
const (
	OptionBatch = "batch"
	OptionWait  = "batch_wait"
	usualWait   = 500 * time.Millisecond
)

type batcher struct {
	put     func(context.Context, *s3.PutObjectInput) (Receipt, error)
	most    int
	bytes   int
	wait    time.Duration
	closing context.Context
	mu      sync.Mutex
	open    map[string]*batch // by the part of the objects' keys that their messages choose
	writing sync.WaitGroup
}

// batch is an object to be. The batcher's lock guards it until it is shut; then it does not change.
type batch struct {
	messages []*Message
	size     int
	until    time.Time // the latest deadline of a message
	due      *time.Timer
	done     chan struct{} // closed when receipt and err are set
	receipt  Receipt
	err      error
}

func (b *batcher) send(ctx context.Context, m *Message) (Receipt, error) {
	is := b.join(ctx, m)
	select {
	case <-is.done:
		return is.receipt, is.err
	case <-ctx.Done():
		b.leave(is, m)
		return nil, ctx.Err()
	}
}

// join puts a message into the open batch of its name, and closes the batch if that makes it full.
func (b *batcher) join(ctx context.Context, m *Message) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := b.open[m.Name]
	if is == nil {
		is = &batch{done: make(chan struct{})}
		wait := b.wait
		if by, has := ctx.Deadline(); has {
			wait = min(wait, time.Until(by)/2) // the other half is for the answer
		}
		is.due = time.AfterFunc(wait, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.shut(m.Name, is)
		})
		b.open[m.Name] = is
	}
	is.messages = append(is.messages, m)
	is.size += len(m.Body)
	if by, has := ctx.Deadline(); has && by.After(is.until) {
		is.until = by
	}
	if len(is.messages) >= b.most || is.size >= b.bytes {
		b.shut(m.Name, is)
	}
	return is
}

// leave takes a message out of its batch, if the batch is still open.
func (b *batcher) leave(is *batch, m *Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[m.Name] == is {
		is.messages = slices.DeleteFunc(is.messages, func(o *Message) bool { return o == m })
		is.size -= len(m.Body)
		if len(is.messages) == 0 {
			is.due.Stop()
			delete(b.open, m.Name)
		}
	}
}

// shut lets no message join a batch any more, and writes it. The caller has the lock.
func (b *batcher) shut(name string, is *batch) {
	if b.open[name] != is {
		return // it is shut
	}
	is.due.Stop()
	delete(b.open, name)
	b.writing.Go(func() {
		defer close(is.done)
		ctx, cancel := context.WithDeadline(b.closing, is.until)
		defer cancel()
		key := strings.TrimSuffix(name, "/") + "/" + is.messages[0].Header("webhook-timestamp") + "-" + rand.Text() + ".jsonl"
		is.receipt, is.err = b.put(ctx, &s3.PutObjectInput{Key: &key, Body: bytes.NewReader(lines(is.messages)), ContentType: aws.String("application/x-ndjson")})
	})
}

// lines are the messages with their headers. A body is a string, so that its bytes stay, and with
// them its signature; one that is no text is in base64.
func lines(all []*Message) []byte {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	for _, m := range all {
		line := struct {
			Headers map[string]string `json:"headers"`
			Body    *string           `json:"body,omitempty"`
			Base64  []byte            `json:"body_base64,omitempty"`
		}{Headers: map[string]string{}}
		for _, h := range m.Headers {
			line.Headers[h.Name] = h.Value
		}
		if text := string(m.Body); utf8.Valid(m.Body) {
			line.Body = &text
		} else {
			line.Base64 = m.Body
		}
		_ = to.Encode(line) // strings and bytes always encode
	}
	return b.Bytes()
}

// batcherOf is nil for a target without the option.
func batcherOf(d *s3Driver, options map[string]string, n Network) *batcher {
	most, _ := strconv.Atoi(options[OptionBatch])
	if most == 0 {
		return nil
	}
	b := &batcher{put: d.put, most: most, bytes: n.Batch, wait: usualWait, closing: d.closing, open: map[string]*batch{}}
	if ms, _ := strconv.Atoi(options[OptionWait]); ms > 0 {
		b.wait = time.Duration(ms) * time.Millisecond
	}
	return b
}
