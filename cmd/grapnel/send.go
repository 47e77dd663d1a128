package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/policy"
)

func (s *session) send() *cobra.Command {
	var in client.NewEvent
	var data, contentType string
	var occurred moment
	c := &cobra.Command{
		Use: "send TYPE", Short: "Publish an event", Args: takes(cobra.ExactArgs(1)),
		Long: "Publish an event. The command succeeds once the event and all its deliveries are durable.\n\n" +
			"Here --key is the event's ordering key; the API key comes from GRAPNEL_KEY or --api-key. A --key in the form of an API key " +
			"is used as one: it never becomes part of an event.",
		PreRunE: func(*cobra.Command, []string) error {
			if cli.IsKey(in.Key) {
				in.Key, s.key = "", in.Key
			}
			return nil
		},
		Example: "grapnel send invoice.paid -d '{\"amount\":100}' --key inv_1\n" +
			"grapnel send invoice.paid -d @invoice.json --id inv_1-paid\n" +
			"generate | grapnel send report.ready --content-type text/csv",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			body, err := s.dataOf(data)
			if err != nil {
				return cli.View{}, err
			}
			in.Type, in.Data, in.OccurredAt = args[0], body, occurred.pointer()
			var p *client.Published
			if contentType != "" {
				p, err = r.PublishRaw(ctx, client.RawEvent{Type: in.Type, Key: in.Key, ID: in.ID, Tenant: in.Tenant, Data: body, ContentType: contentType})
			} else if !json.Valid(body) {
				return cli.View{}, &cli.Fault{Exit: cli.ExitUsage, Code: "malformed", Text: "-d: the data is not JSON",
					Next: "Put quotes around it for your shell, or say what it is with --content-type."}
			} else {
				p, err = r.Publish(ctx, in)
			}
			if err != nil {
				return cli.View{}, err
			}
			return cli.View{
				JSON: p.JSON(), Items: []cli.Item{{Name: p.ID, JSON: p.JSON()}},
				Parts: []cli.Part{{Head: []string{"EVENT", "DELIVERIES", "DUPLICATE"},
					Rows: [][]string{{p.ID, strconv.Itoa(p.Deliveries), strconv.FormatBool(p.Duplicate)}}}},
			}, nil
		}),
	}
	f := c.Flags()
	f.StringVarP(&data, "data", "d", "", "the event's data: JSON, @FILE, or - for standard input; default: what is piped in, else {}")
	f.StringVar(&in.Key, "key", "", "ordering key: events of one key arrive in order")
	f.StringVar(&in.ID, "id", "", "id of the event; publishing the same id again changes nothing")
	f.StringVar(&in.Tenant, "tenant", "", "whose event it is")
	f.StringToStringVar(&in.Metadata, "metadata", nil, "name=value, may be repeated")
	f.Var(&occurred, "occurred-at", "when it happened; default: now")
	f.StringVar(&contentType, "content-type", "", "publish the data as bytes of this type instead of as JSON")
	return c
}

// dataOf is the data of an event: what the flag says or, without one, what is piped in.
func (s *session) dataOf(flag string) ([]byte, error) {
	if flag != "" {
		return s.content("-d", flag)
	}
	if s.Piped() {
		if text, err := s.content("-d", "-"); err != nil || len(text) > 0 {
			return text, err
		}
	}
	return []byte("{}"), nil
}

// content reads the value of a flag that can also name a file or standard input.
func (s *session) content(flag, value string) ([]byte, error) {
	name, isFile := strings.CutPrefix(value, "@")
	switch {
	case value == "-":
		text, err := io.ReadAll(s.Stdin)
		if err != nil {
			return nil, cli.Usagef("%s: standard input cannot be read: %v", flag, err)
		}
		return text, nil
	case isFile:
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, cli.Usagef("%s: %v", flag, err)
		}
		return text, nil
	}
	return []byte(value), nil
}

// moment is a flag for a point in time: RFC 3339, or how long ago it was.
type moment struct {
	time.Time
	past bool // a time in the future is refused: as the begin of a range it finds nothing
}

// begin makes a flag of the begin of a range.
func begin(m *moment) *moment {
	m.past = true
	return m
}

func (m *moment) Set(text string) error {
	now := time.Now()
	at := now
	if ago, err := policy.ParseDuration(text); err != nil {
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return errors.New("write 2026-01-31T12:00:00Z, or 6h or 7d for so long ago")
		}
	} else if at = now.Add(-ago); ago < 0 {
		return errors.New("a negative duration is in the future; write 6h for six hours ago")
	}
	if m.past && at.After(now) {
		return errors.New("a range cannot begin in the future")
	}
	m.Time = at
	return nil
}

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339Nano)
}

func (*moment) Type() string { return "time" }

func (m *moment) pointer() *time.Time {
	if m.IsZero() {
		return nil
	}
	return &m.Time
}
