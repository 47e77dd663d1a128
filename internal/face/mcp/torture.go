package mcp

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

type tortureInput struct {
	URL    string   `json:"url" jsonschema:"address of the receiver, such as http://localhost:3000/hooks"`
	Secret string   `json:"secret,omitempty" jsonschema:"the receiver's secret; if not given, the one that the operator has set"`
	Probe  string   `json:"probe,omitempty" jsonschema:"URL that answers the number of effects of {event} and of {key}; without it only answers are judged"`
	Only   []string `json:"only,omitempty" jsonschema:"only these cases, such as T01; all of them take minutes"`
}

type tortured struct {
	Passed    int        `json:"passed"`
	Failed    int        `json:"failed"`
	NotJudged int        `json:"not_judged"`
	Grade     string     `json:"grade,omitempty"`
	Cases     []caseFact `json:"cases,omitempty" jsonschema:"those that failed come first"`
	Omitted   int        `json:"omitted,omitempty" jsonschema:"rows that were left out to keep the answer short"`
}

type caseFact struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Verdict  string   `json:"verdict"`
	Reason   quoted   `json:"reason,omitempty"`
	Findings []quoted `json:"findings,omitempty"`
}

// tortureReceiver sends the requests of the cases to a receiver that the operator allows.
func tortureReceiver(ctx context.Context, c *call, in tortureInput) (*tortured, error) {
	for argument, target := range map[string]string{"url": in.URL, "probe": in.Probe} {
		if target == "" && argument == "probe" {
			continue
		}
		if err := c.mayTorture(argument, target); err != nil {
			return nil, err
		}
	}
	v, err := c.Torture(ctx, Trial{in.URL, in.Secret, in.Probe, in.Only}, func(one Case) {
		c.tell(one.Done, one.Of, one.ID+" "+one.Verdict)
	})
	if err != nil {
		return nil, err
	}
	out := &tortured{Passed: v.Passed, Failed: v.Failed, NotJudged: v.NotJudged, Grade: v.Grade}
	for _, one := range v.Cases {
		f := caseFact{ID: one.ID, Name: one.Name, Verdict: one.Verdict, Reason: c.text(one.Reason)}
		for _, finding := range one.Findings {
			f.Findings = append(f.Findings, c.payload(finding))
		}
		out.Cases = append(out.Cases, f)
	}
	slices.SortStableFunc(out.Cases, func(a, b caseFact) int { return len(b.Findings) - len(a.Findings) })
	return out, nil
}

// mayTorture refuses an address that is not on this machine and whose host the operator has not
// named. Names are compared as they are written: no answer of a name server makes a host near.
func (r *room) mayTorture(argument, target string) error {
	before, _, _ := strings.Cut(target, "{") // placeholders follow the host, which url.Parse refuses with one
	u, err := url.Parse(before)
	if err != nil || u.Host == "" || len(before) < len(target) && u.Path+u.RawQuery == "" || u.Scheme != "http" && u.Scheme != "https" {
		return wrong(argument, "%q is not a URL such as http://localhost:3000/hooks", target)
	}
	if !cli.Loopback(u.Hostname()) && !slices.Contains(r.TortureHosts, u.Hostname()) {
		return wrong(argument, "%s is not on this machine; the operator allows it with --torture-host %s", u.Hostname(), u.Hostname())
	}
	return nil
}

func (t *tortured) say(p *prose) {
	p.say("%d cases passed, %d failed, %d could not be judged.", t.Passed, t.Failed, t.NotJudged)
	if t.Grade != "" {
		p.say("Grade %s.", t.Grade)
	}
	for _, one := range t.Cases {
		p.say("%s, %s: %s.", one.ID, one.Name, one.Verdict)
		p.told("  Not judged because", one.Reason)
		for _, f := range one.Findings {
			p.say("  Finding: %s", f)
		}
	}
	p.left(t.Omitted, "")
}

func (t *tortured) shorten() bool { return halve(&t.Cases, &t.Omitted) }
