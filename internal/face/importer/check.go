package importer

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/sign"
)

// Limits of the API's fields.
const (
	mostLabels      = 16
	mostLabelBytes  = 256
	mostName        = 256
	mostDescription = 1000
	mostURL         = 2048
	mostTypes       = 100
	mostFilter      = 4096
)

var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	webAddress = regexp.MustCompile(`^[hH][tT][tT][pP][sS]?://[^#\x00-\x20\x7f]+$`)
)

// The texts of faults name no value: a value in the wrong place may be a secret.

func urlFault(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "is required"
	case len(text) > mostURL:
		return fmt.Sprintf("must have at most %d bytes", mostURL)
	case !webAddress.MatchString(text), err != nil, u.Host == "":
		return "must be a URL such as https://example.com/hook"
	}
	return ""
}

func tenantFault(name string) string {
	if !grapnel.BindsTenant(name) {
		return "must be 1 to 64 characters of [A-Za-z0-9_-]"
	}
	return ""
}

func typesFault(all []string) string {
	if len(all) > mostTypes {
		return fmt.Sprintf("has %d event types; at most %d are allowed, and * stands for a segment", len(all), mostTypes)
	}
	for _, one := range all {
		if !grapnel.ValidPattern(one) {
			return "must be event types of segments of [A-Za-z0-9_-], joined by dots; a whole segment may be *"
		}
	}
	return ""
}

func filterFault(filter string) string {
	switch {
	case filter == "":
		return ""
	case utf8.RuneCountInString(filter) > mostFilter:
		return fmt.Sprintf("must have at most %d characters", mostFilter)
	}
	if err := match.Check(filter); err != nil {
		return "must be a CEL expression over event"
	}
	return ""
}

func secretFault(secret string) string {
	if secret == "" {
		return ""
	}
	if err := sign.CheckSecret(secret); err != nil {
		return strings.TrimPrefix(err.Error(), "sign: ")
	}
	return ""
}

func descriptionFault(text string) string {
	if utf8.RuneCountInString(text) > mostDescription || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Sprintf("must be text of at most %d characters", mostDescription)
	}
	return ""
}

func labelFault(name, value string) string {
	switch {
	case !labelName.MatchString(name):
		return "its name must be 1 to 64 characters of [A-Za-z0-9_.-]"
	case len(value) > mostLabelBytes || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Sprintf("its value must be text of at most %d bytes", mostLabelBytes)
	}
	return ""
}

// headerFaults are the faults of headers, by their names. With the signature headers of Svix, names
// that begin with svix- are reserved.
func headerFaults(all map[string]string, svix bool) map[string]string {
	faults := map[string]string{}
	err := egress.CheckHeaders(all)
	named, _ := errors.AsType[egress.HeaderErrors](err)
	for _, one := range named {
		if faults[one.Name] = one.Detail; strings.Contains(one.Detail, "{") { // it repeats a part of the value
			faults[one.Name] = "has an unknown name in braces in its value; {{ and }} are braces"
		}
	}
	for name := range all {
		if svix && strings.HasPrefix(strings.ToLower(name), "svix-") {
			faults[name] = "is reserved"
		}
	}
	if err != nil && named == nil { // there are too many
		for _, name := range slices.Sorted(maps.Keys(all))[egress.MaxCustomHeaders:] {
			faults[name] = fmt.Sprintf("is beyond the %d headers that an endpoint may have", egress.MaxCustomHeaders)
		}
	}
	return faults
}

// literal is the value of a header in which no brace begins a placeholder.
func literal(value string) string { return strings.NewReplacer("{", "{{", "}", "}}").Replace(value) }

// labelled are the labels of an object: own ones, and the other system's marks that fit beside
// these and the reserved number. The other marks are lost.
func (w *Want) labelled(marks map[string]string, own map[string]string, reserved int, prefix string) map[string]any {
	all := map[string]any{}
	for name, value := range own {
		all[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		switch fault := labelFault(name, marks[name]); {
		case fault != "":
			w.lose("metadata %s: %s", say.Cut(name, mostLabelBytes), fault)
		case prefix != "" && strings.HasPrefix(name, prefix):
			w.lose("metadata %s: names that begin with %s are reserved", name, prefix)
		case len(all)+reserved >= mostLabels:
			w.lose("metadata %s: at most %d labels are possible", name, mostLabels)
		default:
			all[name] = marks[name]
		}
	}
	return all
}

func (w *Want) lose(format string, args ...any) {
	w.Lost = append(w.Lost, fmt.Sprintf(format, args...))
}

// block gives the reason for which the object is not created; the first one counts.
func (w *Want) block(format string, args ...any) {
	if w.Blocked == "" {
		w.Blocked = fmt.Sprintf(format, args...)
	}
}

// settle checks the settings of an endpoint that another system has. A setting that decides which
// events arrive, where, or how they are signed, blocks the endpoint if it cannot be kept.
func (w *Want) settle(svix bool) {
	types, _ := w.Fields["event_types"].([]string)
	filter, _ := w.Fields["filter"].(string)
	target, _ := w.Fields["url"].(string)
	for _, of := range [][2]string{{"tenant", tenantFault(w.Tenant)}, {"url", urlFault(target)}, {"event types", typesFault(types)},
		{"filter", filterFault(filter)}, {"secret", secretFault(w.Secret)}} {
		if of[1] != "" {
			w.block("%s: %s", of[0], of[1])
		}
	}
	if text, _ := w.Fields["description"].(string); descriptionFault(text) != "" {
		w.Fields["description"] = nil
		w.lose("description: %s", descriptionFault(text))
	}
	headers, _ := w.Fields["headers"].(map[string]string)
	faults := headerFaults(headers, svix)
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		delete(headers, name)
		w.lose("header %s: %s", name, faults[name])
	}
}

// shown is a URL for people: without user, password and the values of its query.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	query := ""
	if u.RawQuery != "" {
		query = "?…"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath() + query
}
