package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/cli"
)

// endpointFlags are what create and update have in common. Only flags that were given become fields, so that update changes
// nothing else and create leaves the rest to the server.
type endpointFlags struct {
	flags       *pflag.FlagSet
	description string
	types       []string
	filter      string
	source      string
	policy      string
	ordering    string
	rate        string
	concurrency int
	headers     map[string]string
	format      string
	signing     string
}

func (e *endpointFlags) add(c *cobra.Command) {
	f := c.Flags()
	e.flags = f
	f.StringVar(&e.description, "description", "", "what it is, for people")
	f.StringSliceVar(&e.types, "types", nil, "event types it wants; * stands for any part of one; none: all")
	f.StringVar(&e.filter, "filter", "", "CEL expression over event, such as event.data.amount > 100")
	f.StringVar(&e.source, "source", "", "id of a source: only what came in through it")
	f.StringVar(&e.policy, "policy", "", "name of a policy, or a policy as JSON, @FILE or -")
	f.StringVar(&e.ordering, "ordering", "", "key or none")
	f.StringVar(&e.rate, "rate", "", "requests per second, or per second/burst; none removes the limit")
	f.IntVar(&e.concurrency, "max-concurrency", 0, "requests at once")
	f.StringToStringVar(&e.headers, "header", nil, "name=value sent with every request, may be repeated")
	f.StringVar(&e.signing, "signature-headers", "", "standard, or svix: svix-id and so on besides webhook-id")
	f.StringVar(&e.format, "format", "", "standard, raw or cloudevents")
}

// fields are the API's fields for the flags that were given.
func (e *endpointFlags) fields(s *session) (map[string]any, error) {
	fields := map[string]any{}
	for flag, value := range map[string]any{
		"description": e.description, "types": e.types, "filter": e.filter, "source": e.source, "ordering": e.ordering,
		"max-concurrency": e.concurrency, "header": e.headers, "format": e.format, "signature-headers": e.signing,
	} {
		if e.flags.Changed(flag) {
			name := strings.ReplaceAll(flag, "-", "_")
			switch flag {
			case "types":
				name = "event_types"
			case "header":
				name = "headers"
			}
			fields[name] = value
		}
	}
	if e.flags.Changed("policy") {
		policy, err := s.policyGiven(e.policy)
		if err != nil {
			return nil, err
		}
		fields["policy"] = policy
	}
	if e.flags.Changed("rate") {
		rate, err := rateOf(e.rate)
		if err != nil {
			return nil, err
		}
		fields["rate_limit"] = rate
	}
	return fields, nil
}

// policyGiven is what --policy says: a name, or a document.
func (s *session) policyGiven(given string) (any, error) {
	doc, err := s.text("--policy", given)
	if err != nil || !strings.HasPrefix(doc, "{") {
		return doc, err
	}
	if !json.Valid([]byte(doc)) {
		return nil, cli.Usagef("--policy: the policy is not JSON")
	}
	return json.RawMessage(doc), nil
}

// text is content without the space around it.
func (s *session) text(flag, value string) (string, error) {
	content, err := s.content(flag, value)
	return strings.TrimSpace(string(content)), err
}

// rateOf reads "100", "100/200" or "none".
func rateOf(text string) (any, error) {
	if text == "none" {
		return nil, nil // null is how a merge patch removes a field
	}
	first, second, both := strings.Cut(text, "/")
	rate, err := strconv.ParseFloat(first, 64)
	fields := map[string]any{"per_second": rate}
	if err == nil && both {
		fields["burst"], err = strconv.Atoi(second)
	}
	if err != nil {
		return nil, cli.Usagef("--rate %q: write requests per second, such as 100, or with a burst, such as 100/200", text)
	}
	return fields, nil
}
