package channels

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// unpaste turns the URL of a webhook, as a service shows it in its settings, into the form of the
// service's row. The whole host decides, so a host that only resembles a service's is none of its.
// Other URLs are returned as they are. For a path that servers of one's own have, the error names
// the form to write, because no host tells which service it is.
func unpaste(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" {
		return raw, nil
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	service, maybe := (*row)(nil), (*row)(nil)
	for i := range rows {
		r := &rows[i]
		for j := range r.pasted {
			w := &r.pasted[j]
			in := reading{values: map[string]string{"whole": u.String()}, secret: map[string]bool{}}
			switch {
			case u.User != nil || u.Fragment != "" || !in.take(w.host, host) || w.host != "{host}" && strings.ContainsAny(in.values["any"], "/@"):
				continue
			case w.host != "{host}":
				service = r
			}
			if !in.takePath(w.path, u.EscapedPath()) || in.takeQuery(w, &row{passes: true}, u.Query()) != "" {
				continue
			}
			if w.host == "{host}" {
				maybe = r
				continue
			}
			return (&Target{reading: in}).fill(w.url, nil), nil
		}
	}
	switch {
	case service != nil:
		return "", fmt.Errorf("is a URL of %s, but not the one of a webhook there; that looks like %s", service.Title, service.shown())
	case maybe != nil:
		return "", fmt.Errorf("may be a webhook of %s: if it is, write it as %s; for a webhook of your own write generic+https://…", maybe.Title,
			maybe.Form)
	}
	return raw, nil
}

// shown is the form in which the service shows its URLs, without credentials.
func (r *row) shown() string {
	w := &r.pasted[max(slices.IndexFunc(r.pasted, func(w way) bool { return w.query == "" }), 0)]
	text := "https://" + w.host + w.path
	if w.query != "" {
		text += "?" + w.query
	}
	return strings.NewReplacer("!}", "}", "?}", "}", "*}", "}", "{", "", "}", "").Replace(text)
}

// fill replaces {names} by values: escaped in a path and in a query; {+name} as it is.
func (t *Target) fill(template string, more map[string]string) string {
	var b strings.Builder
	for rest := template; rest != ""; {
		before, after, open := strings.Cut(rest, "{")
		b.WriteString(before)
		if !open {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		rest = tail
		name, as := strings.CutPrefix(name, "+")
		value, found := more[name]
		if !found {
			value = t.values[name]
		}
		switch {
		case as || name == "host":
			b.WriteString(value)
		case strings.Contains(b.String(), "?"):
			b.WriteString(url.QueryEscape(value))
		default:
			b.WriteString(url.PathEscape(value))
		}
	}
	return b.String()
}
