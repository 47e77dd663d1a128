package statuspage

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"slices"
	"strconv"
	"time"
)

// The documents of RSS 2.0.
type (
	feed struct {
		XMLName xml.Name `xml:"rss"`
		Version string   `xml:"version,attr"`
		Channel channel  `xml:"channel"`
	}
	channel struct {
		Title       string `xml:"title"`
		Link        string `xml:"link"`
		Description string `xml:"description"`
		TTL         int    `xml:"ttl"`
		Items       []item `xml:"item"`
	}
	item struct {
		Title       string `xml:"title"`
		Link        string `xml:"link"`
		Description string `xml:"description"`
		Date        string `xml:"pubDate"`
		ID          guid   `xml:"guid"`
	}
	guid struct {
		Text      string `xml:",chardata"`
		Permanent bool   `xml:"isPermaLink,attr"`
	}
)

// rss has an item for each message, so that readers are told of every one. They show a description
// as HTML, so the text is escaped as HTML before it is escaped as XML.
func (p *Page) rss(home string) ([]byte, error) {
	if home == "" {
		home = "status"
	}
	f := feed{Version: "2.0", Channel: channel{Title: "Grapnel status", Link: home, Description: "Incidents and maintenance", TTL: 1}}
	for _, in := range slices.Concat(p.Planned, p.Incidents) {
		for _, u := range in.Updates {
			f.Channel.Items = append(f.Channel.Items, item{Title: word(u.Status) + ": " + in.Title, Link: home + "#" + in.ID,
				Description: html.EscapeString(u.Text), Date: u.At.Format(time.RFC1123Z),
				ID: guid{Text: in.ID + "/" + strconv.FormatInt(u.At.UnixMicro(), 10)}})
		}
	}
	var b bytes.Buffer
	b.WriteString(xml.Header)
	e := xml.NewEncoder(&b)
	e.Indent("", " ")
	err := e.Encode(f)
	b.WriteByte('\n')
	return b.Bytes(), err
}

// badge is a small picture of the state, for a README or a footer.
func (p *Page) badge() []byte {
	color := map[State]string{Operational: "#1c7a4a", Maintenance: "#2d55d8", Degraded: "#946200", Outage: "#b93225"}[p.State]
	says := string(p.State)
	left, right := 52, 16+7*len(says)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="status: %s">`+
		`<title>status: %s</title><rect width="%d" height="20" rx="4" fill="#16181b"/><path d="M%d 0h%da4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-%dz" fill="%s"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">`+
		`<text x="%d" y="14">status</text><text x="%d" y="14">%s</text></g></svg>`+"\n",
		left+right, says, says, left+right, left, right-4, right-4, color, left/2, left+right/2, says)
}
