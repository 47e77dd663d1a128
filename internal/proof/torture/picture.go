package torture

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

// Sizes of a picture. Requests up to mostLabelled have a row and a label each; more are packed.
const (
	pictureWidth  = 900
	pictureLeft   = 200
	pictureRight  = 130
	mostLabelled  = 16
	labelledRow   = 16
	packedRow     = 5
	mostPacked    = 40
	pictureMargin = 6
)

// picture draws a history: requests as bars over time, their statuses, marks and effects.
func picture(r *Result) template.HTML {
	h := &r.History
	if len(h.Requests) == 0 {
		return ""
	}
	end := time.Millisecond
	for _, q := range h.Requests {
		end = max(end, q.Start+q.Took)
	}
	for _, m := range h.Marks {
		end = max(end, m.At)
	}
	x := func(at time.Duration) float64 {
		return pictureLeft + float64(min(at, end))/float64(end)*(pictureWidth-pictureLeft-pictureRight)
	}
	var b strings.Builder
	y := float64(pictureMargin)
	if len(h.Requests) <= mostLabelled {
		for _, q := range h.Requests {
			text(&b, pictureLeft-8, y+11, "end", "", short(q.Label, 34))
			bar(&b, x(q.Start), x(q.Start+q.Took), y+3, labelledRow-6, q)
			text(&b, x(q.Start+q.Took)+6, y+11, "start", "", answer(q))
			y += labelledRow
		}
	} else {
		y = packed(&b, h.Requests, x, y)
	}
	for _, m := range h.Marks {
		if m.Event == "" {
			fmt.Fprintf(&b, `<line class="kill" x1="%.1f" x2="%.1f" y1="2" y2="%.1f"><title>%s</title></line>`, x(m.At), x(m.At), y,
				html.EscapeString(m.Text))
		}
	}
	fmt.Fprintf(&b, `<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, pictureLeft, pictureWidth-pictureRight, y+2, y+2)
	text(&b, pictureLeft, y+15, "start", "soft", "0")
	text(&b, pictureWidth-pictureRight, y+15, "end", "soft", round(end).String())
	y += 20
	y = counted(&b, h, y)
	name := fmt.Sprintf("%s %s: %s over %v", r.ID, r.Name, say.Many(len(h.Requests), "request", "requests"), round(end))
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s">%s</svg>`, //nolint:gosec // all texts are escaped
		pictureWidth, y, html.EscapeString(name), b.String()))
}

// packed draws many requests in as few rows as they need, and how many had which answer.
func packed(b *strings.Builder, requests []*Request, x func(time.Duration) float64, y float64) float64 {
	var rows []time.Duration // the end of the last request in each
	for _, q := range requests {
		row := 0
		for row < len(rows) && rows[row] > q.Start {
			row++
		}
		if row == len(rows) && row < mostPacked {
			rows = append(rows, 0)
		}
		row = min(row, len(rows)-1)
		rows[row] = q.Start + q.Took
		bar(b, x(q.Start), x(q.Start+q.Took), y+float64(row*packedRow), packedRow-1, q)
	}
	for i, group := range byAnswer(requests) {
		text(b, pictureLeft-8, y+11+float64(i*13), "end", "", short(fmt.Sprintf("%d × %s", len(group), answer(group[0])), 34))
	}
	return y + max(float64(len(rows)*packedRow), float64(len(byAnswer(requests))*13)) + 2
}

// byAnswer groups requests by their answers, in the order of the first ones.
func byAnswer(requests []*Request) (groups [][]*Request) {
next:
	for _, q := range requests {
		for i := range groups {
			if answer(groups[i][0]) == answer(q) {
				groups[i] = append(groups[i], q)
				continue next
			}
		}
		groups = append(groups, []*Request{q})
	}
	return groups
}

// bar draws one request, coloured by whether its answer is right.
func bar(b *strings.Builder, from, to, y, height float64, q *Request) {
	class := "ok"
	switch got := classOf(q.Status); {
	case !q.Killed && q.Allowed&got == 0:
		class = "wrong"
	case got&again != 0:
		class = "again"
	case got != Accepted:
		class = "no"
	}
	fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1"><title>%s → %s in %v</title></rect>`,
		class, from, y, max(to-from, 2), height, html.EscapeString(q.Label), html.EscapeString(answer(q)), round(q.Took))
}

// counted writes the effects of events and the states of keys.
func counted(b *strings.Builder, h *History, y float64) float64 {
	const most = 8
	shown, sum, wrong := 0, 0, 0
	for i, e := range h.Events {
		n, read := e.effects()
		if !read {
			continue
		}
		sum++
		accepted, _ := h.accepted(i)
		bad := accepted && n < e.Least || n > e.Most
		if bad {
			wrong++
		}
		if shown < most && (bad || len(h.Events) <= most) {
			shown++
			text(b, pictureLeft-8, y+11, "end", "soft", short(labelledShort(e), 34))
			class := "ok"
			if bad {
				class = "wrong"
			}
			text(b, pictureLeft, y+11, "start", class, say.Many(n, "effect", "effects"))
			y += 14
		}
	}
	if sum > shown {
		text(b, pictureLeft, y+11, "start", "soft", fmt.Sprintf("%s read, %d wrong", say.Many(sum, "event", "events"), wrong))
		y += 14
	}
	for i, s := range h.States {
		if i == most {
			break
		}
		class := "ok"
		if s.wrong() {
			class = "wrong"
		}
		text(b, pictureLeft-8, y+11, "end", "soft", s.Field)
		text(b, pictureLeft, y+11, "start", class, short(s.Got, 40))
		y += 14
	}
	return y + 2
}

func labelledShort(e *Event) string {
	if e.Label != "" {
		return e.Label
	}
	return e.ID
}

func text(b *strings.Builder, x, y float64, anchor, class, what string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(what))
}

// short cuts a text to a number of characters.
func short(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
