package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/byhand"
)

// trigger is one run of `grapnel trigger`.
type trigger struct {
	sets, headers []string
	to            string
	times         int
	dry           bool
}

// triggerCommand sends a webhook that looks like a provider's.
func (s *session) triggerCommand() *cobra.Command {
	var t trigger
	c := &cobra.Command{
		Use: "trigger [SCHEME [TYPE]]", Short: "Send a webhook like a provider's, correctly signed",
		Long: "Send a realistic webhook of a provider, correctly signed, to a URL or to a source of the server. Ids and times are new in each run. " +
			"Without TYPE the types of a scheme are listed, without SCHEME the schemes.\n\n" +
			"--set changes a value that the body has, keeps its JSON type, and changes every repetition of an id or amount with it. " +
			"--times sends the same event again, as providers do: a receiver must act on it once.",
		Example: "grapnel trigger\n" +
			"grapnel trigger stripe\n" +
			"grapnel trigger stripe invoice.paid --to http://localhost:3000/hooks --secret @stripe.secret --times 2\n" +
			"grapnel trigger stripe payment_intent.succeeded --set data.object.amount=5 --to stripe-live --secret @stripe.secret\n" +
			"grapnel trigger github push --print --secret @github.secret",
		RunE: s.withPrinter(func(ctx context.Context, p *cli.Printer, args []string) error {
			switch len(args) {
			case 0:
				return listSchemes(p)
			case 1:
				return listTypes(p, args[0])
			}
			return s.runTrigger(ctx, p, &t, args[0], args[1])
		}),
	}
	f := c.Flags()
	f.StringArrayVar(&t.sets, "set", nil, "a new value for a place in the body; may be repeated")
	cli.Form(f, "PATH=VALUE", "set")
	f.StringArrayVarP(&t.headers, "with-header", "H", nil, "a header of the request instead of the fixture's; may be repeated")
	cli.Form(f, "'NAME: VALUE'", "with-header")
	f.StringVar(&t.to, "to", "", "URL to send to, or source of the server, whose settings are used")
	cli.Form(f, "URL|SOURCE", "to")
	f.StringVar(&t.to, "source", "", "the same as --to, and takes names that have : or /")
	cli.Form(f, "SOURCE", "source")
	f.IntVar(&t.times, "times", 1, "send the event N times, one after the other")
	f.BoolVar(&t.dry, "print", false, "print the request, send nothing")
	f.BoolVar(&t.dry, "dry-run", false, "the same as --print")
	bindVerify(c, signingKeyHelp)
	c.MarkFlagsMutuallyExclusive("to", "source")
	return c
}

func listSchemes(p *cli.Printer) error {
	type shown struct {
		Scheme string   `json:"scheme"`
		Title  string   `json:"title"`
		Types  []string `json:"types"`
	}
	var all []shown
	for _, one := range scheme.All() {
		fixtures, err := byhand.Fixtures(one.Name)
		if err != nil {
			return err
		}
		is := shown{one.Name, one.Title, []string{}}
		for _, f := range fixtures {
			is.Types = append(is.Types, f.Type)
		}
		all = append(all, is)
	}
	return p.Print(list(nil, []string{"SCHEME", "PROVIDER", "TYPES"}, all, func(one *shown) []string {
		return []string{one.Scheme, one.Title, strings.Join(one.Types, ", ")}
	}))
}

func listTypes(p *cli.Printer, name string) error {
	fixtures, err := byhand.Fixtures(name)
	if err != nil {
		return err
	}
	if len(fixtures) == 0 {
		return noScheme(name)
	}
	type shown struct {
		Type  string `json:"type"`
		About string `json:"about"`
	}
	var all []shown
	for _, f := range fixtures {
		all = append(all, shown{f.Type, f.About})
	}
	return p.Print(list(nil, []string{"TYPE", "WHEN"}, all, func(one *shown) []string { return []string{one.Type, one.About} }))
}

// fixture is that of a type.
func fixture(scheme, kind string) (*byhand.Fixture, error) {
	fixtures, err := byhand.Fixtures(scheme)
	if err != nil {
		return nil, err
	}
	var types []string
	for i := range fixtures {
		if fixtures[i].Type == kind {
			return &fixtures[i], nil
		}
		types = append(types, fixtures[i].Type)
	}
	return nil, cli.Usagef("%q is no type of %s that can be triggered; the nearest is %s", kind, scheme, cli.Nearest(kind, types, 1)[0]).
		Advise("All: " + strings.Join(types, ", ") + ". For any other: grapnel sign " + scheme + " --body @FILE")
}

// runTrigger makes, signs and sends one event.
func (s *session) runTrigger(ctx context.Context, p *cli.Printer, t *trigger, scheme, kind string) error {
	v, err := s.verifyFlags(scheme)
	if err != nil {
		return err
	}
	made, err := fixture(scheme, kind)
	if err != nil {
		return err
	}
	var overrides []byhand.Override
	for _, set := range t.sets {
		path, value, is := strings.Cut(set, "=")
		if !is {
			return cli.Usagef("--set %q: it is PATH=VALUE, such as data.amount=5", set)
		}
		overrides = append(overrides, byhand.Override{Path: path, Value: value})
	}
	if t.times < 1 {
		return cli.Usagef("--times %d: it must be at least 1", t.times)
	}
	to, signedFor, err := s.target(ctx, t, &v)
	if err != nil {
		return err
	}
	if len(v.Secrets) == 0 && v.Scheme != "none" {
		f := cli.Usagef("--secret is needed to sign: %s", needsOf(scheme))
		if t.to != "" && !strings.Contains(t.to, "://") {
			f.Next = "The server does not tell the secret of a source; give the one that the source was created with."
		}
		return f
	}
	r, err := made.Request(signedFor, s.Now(), rand.Reader, overrides)
	var none *byhand.Unmatched
	if errors.As(err, &none) {
		return cli.Usagef("--set %s: the body of %s %s has no such place", none.Path, scheme, kind).
			Advise("The nearest: " + strings.Join(cli.Nearest(none.Path, none.Has, 3), ", ") + ". All: grapnel trigger " + scheme + " " + kind + " --print")
	} else if err != nil {
		return cli.Usagef("--set: %v", err)
	}
	if err := withHeaders(r, t.headers); err != nil {
		return err
	}
	s.notePublic(&v)
	if t.dry {
		if err := s.signRequest(&v, r, s.Now()); err != nil {
			return err
		}
		return printRequest(s, p, r)
	}
	return s.sendTimes(ctx, p, &v, r, to, t.times)
}

func needsOf(name string) string {
	one, _ := scheme.Of(name) // verifyFlags knows it
	return one.Needs
}

// target is where to send, and the URL that a signature covers. Those of a source the server says,
// with the source's settings.
func (s *session) target(ctx context.Context, t *trigger, v *scheme.Settings) (to, signedFor string, err error) {
	switch {
	case strings.ContainsAny(t.to, ":/"): // a source with such a name is given by --source, which has become its id
		at, err := url.Parse(t.to)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return "", "", cli.Usagef("--to %q: it must be a URL that begins with http:// or https://, or a source", t.to)
		}
		return t.to, t.to, nil
	case t.to == "" && t.dry:
		return "", "https://hooks.example.com/in", nil
	case t.to == "":
		return "", "", misused(s.command, "nowhere to send to: give --to URL, --to SOURCE, or --print")
	}
	source, err := s.idOf(s.command, t.to, "SOURCE")
	if err != nil {
		return "", "", err
	}
	r, err := s.reader()
	if err != nil {
		return "", "", err
	}
	one, err := r.Source(ctx, source)
	if err != nil {
		return "", "", err
	}
	if one.Verify.Scheme != v.Scheme {
		return "", "", cli.Usagef("the source %s has the scheme %s, not %s", t.to, cmp.Or(one.Verify.Scheme, "of an outbox"), v.Scheme)
	}
	is := one.Verify
	v.Header, v.Algorithm, v.Encoding, v.Prefix = is.Header, is.Algorithm, is.Encoding, is.Prefix
	v.Signed, v.TimestampHeader, v.IDHeader, v.TypeHeader, v.Username = is.Signed, is.TimestampHeader, is.IDHeader, is.TypeHeader, is.Username
	to = ingestURL(r.Server(), one.IngestURL)
	return to, cmp.Or(one.PublicURL, to), nil
}

// sent is the answer to one request.
type sent struct {
	Number  int    `json:"number"`
	Status  int    `json:"status"`
	Outcome string `json:"outcome,omitempty"` // of a receiver that says it
	Took    string `json:"took"`
	Answer  string `json:"answer"`
}

// sendTimes signs and sends a request several times, each with its own time.
func (s *session) sendTimes(ctx context.Context, p *cli.Printer, v *scheme.Settings, r *scheme.Webhook, to string, times int) error {
	sender, failed := localClient(1), 0
	var all []sent
	var stopped error // by a receiver that cannot be reached any more, or a signal
	for n := 1; n <= times; n++ {
		if err := s.signRequest(v, r, s.Now()); err != nil {
			return err
		}
		one, err := s.sendOnce(ctx, sender, r, to)
		if err != nil {
			stopped = err
			break
		}
		one.Number = n
		if one.Status/100 != 2 {
			failed++
		}
		all = append(all, *one)
	}
	if len(all) == 0 {
		return stopped
	}
	doc := cli.Encode(map[string]any{"url": to, "request": requestDocument{r.Method, r.URL, r.Header, string(r.Body)}, "answers": all})
	view := list(doc, []string{"SENT", "STATUS", "OUTCOME", "TOOK", "ANSWER"}, all, func(one *sent) []string {
		return []string{strconv.Itoa(one.Number), strconv.Itoa(one.Status), one.Outcome, one.Took, cli.Cut(strings.TrimSpace(one.Answer), 100)}
	})
	if err := cmp.Or(p.Print(view), stopped); err != nil || failed == 0 {
		return err
	}
	if failed < times {
		return cli.Partial("%s of %d not taken", say.Many(failed, "request", "requests"), times)
	}
	f := &cli.Fault{Exit: cli.ExitFailure, Code: "refused", Text: fmt.Sprintf("the receiver answered %d", all[0].Status)}
	if all[0].Status < http.StatusInternalServerError {
		f.Next = "If it does not verify, grapnel verify " + v.Scheme + " says why, with the request as the receiver got it."
	}
	return f
}

// answerKept is how much of an answer is shown.
const answerKept = 4 << 10

// sendOnce sends a request. The query of the signed URL, which may have the hash of the body, goes
// to the other address too.
func (s *session) sendOnce(ctx context.Context, sender *http.Client, r *scheme.Webhook, to string) (*sent, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	if signed, err := url.Parse(r.URL); err == nil {
		at.RawQuery = signed.RawQuery
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, at.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	began := s.Now()
	resp, err := sender.Do(req)
	var refused *net.OpError
	switch {
	case errors.As(err, &refused):
		return nil, &cli.Fault{Exit: cli.ExitUnavailable, Code: "unavailable", Text: fmt.Sprintf("cannot reach %s: %v", at.Host, plain(err)),
			Next: "Is the receiver running, and at this address?"}
	case err != nil:
		return nil, plain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerKept))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", plain(err))
	}
	took := s.Now().Sub(began).Round(time.Millisecond)
	return &sent{Status: resp.StatusCode, Outcome: resp.Header.Get("Webhook-Outcome"), Took: took.String(), Answer: string(body)}, nil
}
