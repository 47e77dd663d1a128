package web

import (
	"fmt"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// whyModel says why deliveries to an endpoint fail.
type whyModel struct {
	Verdict verdict
	Causes  []causeRow
	Groups  []groupRow
}

// causeRow is one cause, with the parts of failures and of successes that have it, in
// percent.
type causeRow struct {
	Sentence            string
	Failures, Successes string // in percent, as in the sentence
	Href                string
}

// groupRow is failures that look alike.
type groupRow struct {
	Pill   pill
	Answer string
	Count  string
	Last   moment
	Href   string
}

func whyPage(v *visit, e *client.Endpoint) (whyModel, error) {
	c, err := v.client.Causes(v.Context(), e.ID)
	if err != nil {
		return whyModel{}, err
	}
	var m whyModel
	v.steps = v.below("/endpoints", endpointName(e), e.ID, "Why")
	v.title = "Why " + endpointName(e)
	m.Verdict.say(c.Sentence, "", "")
	if c.Failures > 0 {
		m.Verdict.say(c.Sentence, toneBad, fmt.Sprintf("Compared: the first attempts of the newest %s, of which %s. A cause is something that failures go together with; "+
			"the receiver's code is not seen.", say.Many(c.Failures+c.Successes, "delivery", "deliveries"), say.Count(c.Failures)+" failed"))
	}
	for i := range c.Causes {
		m.Causes = append(m.Causes, v.causeRow(c, &c.Causes[i]))
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		word := string(g.ErrorClass)
		if g.StatusCode > 0 {
			word = fmt.Sprint(g.StatusCode)
		}
		m.Groups = append(m.Groups, groupRow{Pill: pill{toneBad, word}, Answer: g.Answer, Count: say.Count(g.Count),
			Last: v.at(g.Last), Href: v.link("/deliveries/" + g.DeliveryID)})
	}
	return m, nil
}

func (v *visit) causeRow(all *client.Causes, c *client.Cause) causeRow {
	row := causeRow{Sentence: c.Sentence, Failures: say.Percent(int64(c.Failures), int64(all.Failures)),
		Successes: say.Percent(int64(c.Successes), int64(all.Successes))}
	if c.Filter != "" {
		row.Href = v.link("/deliveries" + withQuery("q", c.Filter))
	}
	return row
}
