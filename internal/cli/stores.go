package cli

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Store is a flag for the database of a server.
type Store string

// Set refuses nothing, because pflag repeats a refused text and a database's URL has a password in
// it.
func (s *Store) Set(text string) error { *s = Store(text); return nil }

// String is the database's place: no user, no password, no parameters, which can have either. A
// text of another form is not shown.
func (s *Store) String() string {
	if path, ok := strings.CutPrefix(string(*s), "sqlite:"); ok {
		path, _, _ = strings.Cut(path, "?")
		return "sqlite:" + path
	}
	u, err := url.Parse(string(*s))
	switch {
	case *s == "":
		return ""
	case err != nil || u.Scheme == "" || u.Host == "":
		return "another database"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Type names the kind of value in help texts.
func (*Store) Type() string { return "string" }

// Stores is a flag for stores by name: "west=postgres://grapnel@db-west/grapnel". Given again, it
// adds. One text can hold several, as in a variable or a list of the config file: the next one
// begins where a comma or a space is followed by a name and the scheme of a store.
type Stores []NamedStore

// NamedStore is a store under a name.
type NamedStore struct{ Name, Store string }

var storeBegins = regexp.MustCompile(`(?:^|[,\s])[^,\s=]*=(?:sqlite|postgres|postgresql):`)

// Set reads the text form. It refuses nothing, because pflag repeats a refused text and a
// database's URL has a password in it; Check refuses.
func (m *Stores) Set(text string) error {
	text = strings.TrimSpace(text)
	begins := storeBegins.FindAllStringIndex(text, -1)
	if len(begins) == 0 || begins[0][0] != 0 {
		*m = append(*m, NamedStore{})
		return nil
	}
	for i, at := range begins {
		end := len(text)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		name, store, _ := strings.Cut(strings.Trim(text[at[0]:end], ", \t\r\n"), "=")
		*m = append(*m, NamedStore{Name: name, Store: store})
	}
	return nil
}

// Check refuses a text that names no store. Which names and stores are allowed, the server decides.
func (m Stores) Check() error {
	if slices.Contains(m, NamedStore{}) {
		return Usagef("--cell: write NAME=STORE, such as west=postgres://grapnel@db-west/grapnel")
	}
	return nil
}

// String shows no URLs, because they have passwords in them.
func (m *Stores) String() string {
	names := make([]string, len(*m))
	for i, c := range *m {
		names[i] = c.Name
	}
	return strings.Join(names, ",")
}

// Type names the kind of value in help texts.
func (*Stores) Type() string { return "name=store" }
