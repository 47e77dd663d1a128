package importer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/wire"
)

// mark is the state of an object as it was last imported. It is the value of a label:
// SETTINGS.SECRET.SINCE.
//
// SETTINGS is a hash. SECRET is the HMAC of the other system's id under the secret: like the
// signature of a request it tells two secrets apart, and does not tell what they are. It is there
// because the API shows no secret again. SINCE says when the secret that signs here was made, in
// microseconds; without it the secret is as old as the endpoint.
type mark struct{ settings, secret, since string }

func readMark(text string) (m mark, is bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return m, false
	}
	m = mark{settings: parts[0], secret: parts[1]}
	if len(parts) == 3 {
		m.since = parts[2]
	}
	return m, true
}

func (m mark) text() string {
	if m.since == "" {
		return m.settings + "." + m.secret
	}
	return m.settings + "." + m.secret + "." + m.since
}

const (
	markBytes = 8
	rotating  = "rotating" // SINCE while a secret is replaced: an import that ends then continues
)

// markOf is the mark of an object as the other system has it.
func (w *Want) markOf(system string) mark {
	m := mark{settings: hashOf(w.project(w.Fields, system)), secret: "0"}
	if w.Secret != "" {
		h := hmac.New(sha256.New, []byte(w.Secret))
		_, _ = h.Write([]byte("grapnel import " + w.ID))
		m.secret = hex.EncodeToString(h.Sum(nil)[:markBytes])
	}
	return m
}

func hashOf(fields map[string]any) string {
	text, err := json.Marshal(fields) // sorts the names
	if err != nil {
		panic(err) // they come from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:markBytes])
}

// secretSince is the form of a secret's time in a mark; empty: it is as old as the endpoint.
func secretSince(e *wire.Endpoint) string {
	if len(e.Secrets) == 0 || e.Secrets[0].CreatedAt.Equal(e.CreatedAt) {
		return ""
	}
	return strconv.FormatInt(e.Secrets[0].CreatedAt.UnixMicro(), 10)
}

// idLabel and markLabel are the names of the importer's labels. Those of Svix are among the labels
// that its API does not show as metadata.
func idLabel(system string) string   { return system + ".id" }
func markLabel(system string) string { return system + ".mark" }

// project are the settings of an object that an import compares: the fields that it wants, without
// the importer's own labels and without headers that only a person can have set.
func (w *Want) project(object map[string]any, system string) map[string]any {
	all := map[string]any{}
	for name := range w.Fields {
		value := plain(object[name])
		switch part, _ := value.(map[string]any); name {
		case "labels":
			value = without(part, func(label string) bool { return label == idLabel(system) || label == markLabel(system) })
		case "headers":
			value = without(part, w.unseen)
		}
		all[name] = value
	}
	return all
}

// unseen says whether the other system has a header whose value it does not show.
func (w *Want) unseen(name string) bool {
	return slices.ContainsFunc(w.Unseen, func(one string) bool { return strings.EqualFold(one, name) })
}

func without(all map[string]any, leave func(name string) bool) any {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(name string, _ any) bool { return leave(name) })
	return plain(all)
}

// plain is a value as JSON has it. Empty values are nil: the API shows some that were not given as
// null, others as empty.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // only settings come here
	}
	var is any
	if err := json.Unmarshal(text, &is); err != nil {
		panic(err)
	}
	switch is := is.(type) {
	case string:
		if is == "" {
			return nil
		}
	case []any:
		if len(is) == 0 {
			return nil
		}
	case map[string]any:
		if len(is) == 0 {
			return nil
		}
	}
	return is
}
