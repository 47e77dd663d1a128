package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// exitData is EX_DATAERR of sysexits: the input was wrong, and will be next time.
const exitData = 65

func queuesConsume(s *session) *cobra.Command {
	var o client.ConsumeOptions
	var rejectOn []int
	c := &cobra.Command{
		Use: "consume QUEUE -- COMMAND [ARG…]", Short: "Run a command for each message; its exit code is the outcome",
		Long: "Run a command for each message of a queue, until stopped. The command gets the body on standard input, and GRAPNEL_* " +
			"variables: EVENT_ID, EVENT_TYPE, EVENT_KEY, DELIVERY_ID, ATTEMPT, FIRST_SEEN_AT, CONTENT_TYPE, QUEUE and LEASE.\n\n" +
			"Exit code 0 is an ack; 65 (or those of --reject-on) is a reject, which makes a dead letter at once; any other returns the " +
			"message, to come again as the queue's policy says. The last line of the command's standard error is recorded as the reason. " +
			"The lease is extended while the command runs.\n\n" +
			"Ctrl-C, SIGTERM and SIGHUP stop it: it leases nothing more, gives running commands the time of --drain-timeout, and exits " +
			"with 0. A second signal ends it at once.",
		Example: "grapnel queues consume orders -- ./handle.sh\n" +
			"grapnel queues consume mails --concurrency 8 --reject-on 65,66 -- python3 send.py",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[1])
			if err != nil {
				return cli.Usagef("%s: %v", args[1], err)
			}
			if o.Concurrency < 1 {
				return cli.Usagef("--concurrency %d: it must be at least 1", o.Concurrency)
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			h := &program{world: s.World, queue: args[0], path: path, args: args[2:], rejectOn: rejectOn, out: s.Stdout}
			if r.Machine() {
				h.out = s.Stderr // stdout is for the outcomes
			}
			return consume(cmd.Context(), r, args[0], h.process, nil, o)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Concurrency, "concurrency", 1, "messages at once")
	f.IntSliceVar(&rejectOn, "reject-on", []int{exitData}, "exit codes that reject")
	consuming(c, &o)
	return c
}

// consuming adds the flags of commands that lease from a queue until stopped.
func consuming(c *cobra.Command, o *client.ConsumeOptions) {
	name, _ := os.Hostname() // empty if there is none
	f := c.Flags()
	f.StringVar(&o.Consumer, "consumer", consumerName(name), "name of the consumer that the queue shows")
	cli.DurationVar(f, &o.Drain, "drain-timeout", 30*time.Second, "how long running work may take after a signal to stop")
	f.IntVar(&o.Count, "count", 0, "stop after this many messages; 0: never")
}

// consumerName is a text with the characters and the length that names of consumers and queues may
// have.
func consumerName(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, text)
	return text[:min(len(text), 40)]
}

// consume leases from a queue until ctx ends or o.Count messages are settled. It reports each
// outcome: a line on stderr for people, an object on stdout for programs. said is what the handler
// has to say of a message besides; nil: nothing.
func consume(ctx context.Context, r reader, queue string, handle client.Handler, said func(*client.Message) string,
	o client.ConsumeOptions,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	progress := r.world.Progress()
	var mu sync.Mutex
	var failed error
	o.Drain = max(o.Drain, 1) // to the client, 0 is its default
	o.Settled = func(one client.Settled) {
		mu.Lock()
		defer mu.Unlock()
		progress.Done()
		if err := tellSettled(r, one, said); err != nil && failed == nil {
			failed = err
			stop()
		}
	}
	o.Trouble = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		progress.Say("leasing failed; retrying: %v", err)
	}
	err := r.Consume(ctx, queue, handle, o)
	return errors.Join(err, failed)
}

func tellSettled(r reader, one client.Settled, said func(*client.Message) string) error {
	m := one.Message
	why := one.Reason
	if one.Err != nil {
		why = strings.TrimPrefix(why+"; the server may not have this outcome: "+one.Err.Error(), "; ")
	}
	if !r.Machine() {
		outcome := string(one.Outcome)
		if said != nil {
			outcome = fmt.Sprintf("%-6s  %s", outcome, said(m))
		}
		r.world.Note("%s  %-6s  %s  %s  attempt %d  %s  %s", r.world.Now().UTC().Format("15:04:05"), outcome, m.Type,
			m.EventID, m.Attempt, say.Took(one.Took), why)
		return nil
	}
	doc := cli.Encode(struct {
		Outcome    client.Outcome `json:"outcome"`
		Reason     string         `json:"reason,omitempty"`
		Known      bool           `json:"known"` // to the server
		EventID    string         `json:"event_id"`
		DeliveryID string         `json:"delivery_id"`
		Type       string         `json:"type"`
		Key        string         `json:"key,omitempty"`
		Attempt    int            `json:"attempt"`
		Took       string         `json:"took"`
	}{one.Outcome, why, one.Err == nil, m.EventID, m.DeliveryID, m.Type, m.Key, m.Attempt, one.Took.String()})
	return r.Print(single(m.DeliveryID, doc))
}

// program is a handler that runs a program.
type program struct {
	world       *cli.World
	queue, path string
	args        []string
	rejectOn    []int
	out         io.Writer // of the program

	mu sync.Mutex // programs that run at once write one after the other
}

// dyingTime is how long a program may run after it was asked to end because its lease is lost or
// the drain has taken too long.
const dyingTime = 5 * time.Second

func (h *program) process(ctx context.Context, m *client.Message) error {
	cmd := exec.CommandContext(ctx, h.path, h.args...)
	cmd.Env = append(os.Environ(), "GRAPNEL_EVENT_ID="+m.EventID, "GRAPNEL_EVENT_TYPE="+m.Type, "GRAPNEL_EVENT_KEY="+m.Key,
		"GRAPNEL_DELIVERY_ID="+m.DeliveryID, "GRAPNEL_ATTEMPT="+strconv.Itoa(m.Attempt),
		"GRAPNEL_FIRST_SEEN_AT="+m.FirstSeenAt.UTC().Format(time.RFC3339Nano), "GRAPNEL_CONTENT_TYPE="+m.ContentType,
		"GRAPNEL_QUEUE="+h.queue, "GRAPNEL_LEASE="+m.Lease)
	cmd.Stdin = bytes.NewReader(m.Body)
	last := &lastLine{}
	cmd.Stdout = &shared{mu: &h.mu, to: h.out}
	cmd.Stderr = io.MultiWriter(&shared{mu: &h.mu, to: h.world.Stderr}, last)
	apart(cmd) // Ctrl-C reaches this program alone, which lets the handler finish
	cmd.WaitDelay = dyingTime
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case cmd.ProcessState != nil && cmd.ProcessState.Success():
		return nil // err may say that it was interrupted, or that its output is still open
	case !errors.As(err, &ended):
		return err
	}
	if why := last.text(); why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	if slices.Contains(h.rejectOn, ended.ExitCode()) {
		return client.Reject(err)
	}
	return err
}

// shared lets several programs write to one writer; each write is whole. Output that cannot be
// written is dropped: an error would end the program, or hide its exit code.
type shared struct {
	mu *sync.Mutex
	to io.Writer
}

func (w *shared) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.to.Write(p)
	return len(p), nil
}

// lastLine stores the end of the text written to it.
type lastLine struct{ end []byte }

func (l *lastLine) Write(p []byte) (int, error) {
	const most = 4096
	l.end = append(l.end, p[max(0, len(p)-most):]...)
	l.end = l.end[max(0, len(l.end)-most):]
	return len(p), nil
}

func (l *lastLine) text() string {
	lines := bytes.Split(bytes.TrimSpace(l.end), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "�")
}
