package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/cli"
)

// sourceFlags are what creating and changing a source have in common. As with endpoints, only flags that were given become fields.
type sourceFlags struct {
	flags   *pflag.FlagSet
	texts   map[string]*string // by flag
	secrets []string
	outbox  string
	by      []string
	ignore  []string
	rate    string
	maxBody cli.Size
}

// verifyFlags are the flags for fields of verify, whose names have underscores instead.
var verifyFlags = []struct{ name, about string }{
	{"scheme", "whose signature it is: stripe, github, shopify, slack, twilio, standard, svix, hmac, basic, api_key, none, …"},
	{"header", "header of the signature or key"},
	{"algorithm", "sha1, sha256 or sha512"},
	{"encoding", "of the signature: hex or base64"},
	{"prefix", "before the signature, as in sha256="},
	{"signed", "what is signed: {body}, {timestamp}, {id}, {url} and what is between them"},
	{"timestamp-header", "header of the timestamp"},
	{"id-header", "header of the event's id"},
	{"type-header", "header of the event's type"},
	{"tolerance", "how old a signed timestamp may be, as in 5m"},
	{"username", "for basic"},
}

// plainFlags are those for fields of the source itself.
var plainFlags = []struct{ name, about string }{
	{"description", "what it is, for people"},
	{"on-unverified", "reject: 401, and nothing is kept; or quarantine: kept for people to see"},
	{"type", "CEL expression for the event's type; none: the provider's own field"},
	{"event-key", "CEL expression for the ordering key; none: the provider's own field"},
	{"public-url", "where the provider reaches it, for signatures that cover the URL"},
}

func (e *sourceFlags) add(c *cobra.Command) {
	f := c.Flags()
	e.flags, e.texts = f, map[string]*string{}
	for _, flag := range append(verifyFlags, plainFlags...) {
		e.texts[flag.name] = f.String(flag.name, "", flag.about)
	}
	f.StringVar(&e.outbox, "outbox", "", "instead of a scheme: the DSN of a producer's PostgreSQL, as grapnel outbox takes it: @FILE, or - for standard input")
	f.StringArrayVar(&e.secrets, "secret", nil, "shared with the provider: @FILE, or - for standard input; may be repeated, the newest first")
	f.StringSliceVar(&e.by, "dedupe", nil, "known by the first there is of event_id, delivery_id, content; none: never")
	e.texts["dedupe-window"] = f.String("dedupe-window", "", "how long a request is known, as in 192h")
	f.StringSliceVar(&e.ignore, "ignore", nil, "paths of JSON bodies that do not count for content, as in $.sent_at")
	f.StringVar(&e.rate, "rate", "", "requests per second, or per second/burst; none removes the limit")
	f.Var(&e.maxBody, "max-body", "largest body of a request")
}

// fields are the API's fields for the flags that were given.
func (e *sourceFlags) fields(s *session) (map[string]any, error) {
	fields, verify, dedupe := map[string]any{}, map[string]any{}, map[string]any{}
	for _, flag := range verifyFlags {
		if e.flags.Changed(flag.name) {
			verify[strings.ReplaceAll(flag.name, "-", "_")] = *e.texts[flag.name]
		}
	}
	for _, flag := range plainFlags {
		if e.flags.Changed(flag.name) {
			name := strings.ReplaceAll(flag.name, "-", "_")
			if name == "event_key" {
				name = "key"
			}
			fields[name] = *e.texts[flag.name]
		}
	}
	if e.outbox != "" {
		dsn, err := s.dsn(e.outbox)
		if err != nil {
			return nil, err
		}
		fields["outbox"] = map[string]any{"dsn": dsn}
	}
	if len(e.secrets) > 0 {
		all := make([]string, len(e.secrets))
		for i, secret := range e.secrets {
			var err error
			if all[i], err = s.text("--secret", secret); err != nil {
				return nil, err
			}
		}
		if verify["secret"] = all[0]; len(all) > 1 {
			delete(verify, "secret")
			verify["secrets"] = all
		}
	}
	if e.flags.Changed("dedupe") {
		dedupe["by"] = e.by
		if len(e.by) == 1 && e.by[0] == "none" {
			dedupe["by"] = []string{}
		}
	}
	if e.flags.Changed("dedupe-window") {
		dedupe["window"] = *e.texts["dedupe-window"]
	}
	if e.flags.Changed("ignore") {
		dedupe["ignore"] = e.ignore
	}
	if e.flags.Changed("rate") {
		rate, err := rateOf(e.rate)
		if err != nil {
			return nil, err
		}
		fields["rate_limit"] = rate
	}
	if e.flags.Changed("max-body") {
		fields["max_body"] = int64(e.maxBody)
	}
	for name, part := range map[string]map[string]any{"verify": verify, "dedupe": dedupe} {
		if len(part) > 0 {
			fields[name] = part
		}
	}
	return fields, nil
}
