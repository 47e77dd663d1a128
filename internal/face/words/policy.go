package words

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Policy is an endpoint's policy: its name; or, of a policy of its own, the base and the fields
// that differ from it.
func Policy(raw json.RawMessage, changes []string) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	var own struct{ Preset string }
	if json.Unmarshal(raw, &own) != nil || own.Preset == "" {
		return "its own"
	}
	return Base(own.Preset, changes)
}

// Base is what a policy was made from, and the fields in which it differs: "sent, except timeout".
func Base(preset string, changes []string) string {
	if len(changes) == 0 {
		return preset + ", unchanged"
	}
	return preset + ", except " + strings.Join(changes, ", ")
}

// Request is what a preset says about requests, on one line.
func Request(headers map[string]string, transform, format, ordering string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		parts = append(parts, "header "+name+": "+headers[name])
	}
	for _, part := range [][2]string{{"transform", transform}, {"format", format}, {"ordering", ordering}} {
		if part[1] != "" {
			parts = append(parts, part[0]+" "+part[1])
		}
	}
	return strings.Join(parts, "; ")
}
