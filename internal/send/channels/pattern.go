package channels

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

var named = regexp.MustCompile(`\{([a-z]+)([!?*]*)\}`)

// compile prepares a pattern. The flags of its names say what they take.
func compile(pattern string) (match *regexp.Regexp, names []string) {
	text, last := "^", 0
	for _, at := range named.FindAllStringSubmatchIndex(pattern, -1) {
		text += regexp.QuoteMeta(pattern[last:at[0]])
		flags := pattern[at[4]:at[5]]
		if strings.ContainsAny(flags, "?*") {
			text += "(.*?)"
		} else {
			text += "(.+?)"
		}
		names = append(names, pattern[at[2]:at[3]]+flags)
		last = at[1]
	}
	return regexp.MustCompile("(?s)" + text + regexp.QuoteMeta(pattern[last:]) + "$"), names
}

// take reads a part of a URL, if it has the pattern.
func (r *reading) take(pattern, text string) bool {
	match, names := compile(pattern)
	found := match.FindStringSubmatch(text)
	if found == nil {
		return false
	}
	for i, name := range names {
		bare := strings.TrimRight(name, "!?*")
		r.values[bare] = found[i+1]
		r.secret[bare] = r.secret[bare] || strings.Contains(name, "!")
	}
	return true
}

// takePath reads a path segment by segment: an escaped slash stays within its segment.
func (r *reading) takePath(pattern, path string) bool {
	want := strings.FieldsFunc(pattern, func(c rune) bool { return c == '/' })
	var is []string
	for segment := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		text, err := url.PathUnescape(segment)
		if err != nil {
			return false
		}
		if text != "" {
			is = append(is, text)
		}
	}
	for i, w := range want {
		if strings.HasSuffix(w, "*}") { // all segments but those that follow it
			n := len(is) - (len(want) - i - 1)
			if n < 0 {
				return false
			}
			rest := ""
			for _, segment := range is[:n] {
				rest += "/" + url.PathEscape(segment)
			}
			name := named.FindStringSubmatch(w)
			r.values[name[1]], r.secret[name[1]], is = rest, strings.Contains(name[2], "!"), is[n:]
			continue
		}
		segment := ""
		if len(is) > 0 {
			segment, is = is[0], is[1:]
		}
		if !r.take(w, segment) {
			return false
		}
	}
	return len(is) == 0
}

// takeQuery reads the parameters. Those that the row names as decoration are ignored; a row that
// passes parameters on takes any.
func (r *reading) takeQuery(w *way, row *row, query url.Values) (problem string) {
	given := map[string]string{}
	for name, values := range query {
		if len(values) > 1 {
			return "has the parameter " + quoted(name) + " twice"
		}
		given[strings.ToLower(name)] = values[0]
	}
	for pair := range strings.FieldsFuncSeq(w.query, func(c rune) bool { return c == '&' }) {
		all, pattern, _ := strings.Cut(pair, "=")
		value, aliases := "", strings.Split(all, "|")
		for _, name := range aliases {
			value = cmp.Or(value, given[name])
			delete(given, name)
		}
		if !r.take(pattern, value) {
			return "lacks the parameter " + quoted(aliases[0]) + ", or has a wrong one"
		}
	}
	if row.passes {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(row.ignored, name):
		case (name == "disabletls" || name == "scheme") && strings.Contains(w.url, "{+scheme}"):
			r.values[name] = given[name]
		default:
			return "has the parameter " + quoted(name) + ", which is not supported here"
		}
	}
	return ""
}

// quoted is a parameter's name as an error repeats it: short and printable.
func quoted(name string) string {
	return strconv.Quote(say.Cut(name, 40))
}

// read reads a URL by the first of the row's ways that fits. If none does, the error is that of the
// first way that all but its values fit.
func (r *row) read(u *url.URL) (*Target, error) {
	problem := ""
	pass, _ := u.User.Password()
	for i := range r.ways {
		w := &r.ways[i]
		in := reading{values: map[string]string{}, secret: map[string]bool{}}
		if !in.take(w.user, u.User.Username()) || !in.take(w.pass, pass) || !in.take(w.host, u.Host) || !in.takePath(w.path, u.EscapedPath()) {
			continue
		}
		if wrong := in.takeQuery(w, r, u.Query()); wrong != "" {
			problem = cmp.Or(problem, wrong)
			continue
		}
		if wrong := r.faults(&in); wrong != "" {
			problem = cmp.Or(problem, wrong)
			continue
		}
		return r.target(w, in, u), nil
	}
	return nil, fmt.Errorf("%s", cmp.Or(problem, "does not have the form "+r.Form))
}

// faults checks the values: by the row's own patterns, and for characters that no URL or header may
// have.
func (r *row) faults(in *reading) string {
	for _, name := range slices.Sorted(maps.Keys(in.values)) {
		value := in.values[name]
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return "has control characters in its " + name
		}
		if check, has := r.checks[name]; has && value != "" && !regexp.MustCompile(check.pattern).MatchString(value) {
			return check.wrong
		}
	}
	return ""
}

// target makes the target of a URL that was read.
func (r *row) target(w *way, in reading, u *url.URL) *Target {
	for name, value := range r.defaults {
		in.values[name] = cmp.Or(in.values[name], value)
	}
	t := &Target{
		Service: r.Name, Method: r.method, Form: r.form, Body: prelude + r.body, Answer: r.answer, Headers: map[string]string{},
		reading: in, url: w.url, closing: w.closing,
	}
	if user, pass := in.values["user"], in.values["password"]; user != "" || pass != "" {
		in.values["basic"] = base64.StdEncoding.EncodeToString([]byte(user + ":" + pass))
	}
	in.secret["basic"] = true
	for name, value := range w.headers {
		given := true
		filled := named.ReplaceAllStringFunc(value, func(is string) string {
			one := in.values[strings.Trim(is, "{}?!")]
			given = given && one != ""
			return one
		})
		if given { // {token?} may be missing
			t.Headers[name] = braced(filled)
		}
	}
	if r.passes {
		r.passOn(t, u)
	}
	t.Masked = r.Name + "://…"
	if in.values["host"] != "" && w.host == "{host}" && r.defaults["host"] == "" {
		t.Masked = r.Name + "://" + in.values["host"] + "/…"
	}
	return t
}

// braced writes braces of a value as the headers of an endpoint have them: they are no
// placeholders.
func braced(value string) string { return strings.NewReplacer("{", "{{", "}", "}}").Replace(value) }

// passOn gives the parameters of a URL of one's own to the request: those that begin with @ as
// headers, the others as the query.
func (r *row) passOn(t *Target, u *url.URL) {
	query := url.Values{}
	for name, values := range u.Query() {
		header, is := strings.CutPrefix(name, "@")
		switch lower := strings.ToLower(name); {
		case is:
			t.Headers[header] = braced(values[0])
			t.values[name], t.secret[name] = values[0], true
		case lower == "disabletls":
			t.values[lower] = values[0]
		case slices.Contains(r.ignored, lower):
		default:
			query[strings.TrimPrefix(name, "_")] = values
		}
	}
	if len(query) > 0 {
		t.values["query"], t.secret["query"] = "?"+query.Encode(), true
	}
}

func truth(text string) bool {
	switch strings.ToLower(text) {
	case "yes", "true", "1", "on":
		return true
	}
	return false
}

func rowOf(name string) *row {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

func names() string {
	var all []string
	for i := range rows {
		all = append(all, rows[i].Name)
	}
	return strings.Join(all, ", ")
}
