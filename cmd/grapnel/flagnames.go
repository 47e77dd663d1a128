package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/client"
)

// flagOf has the flags whose names differ from those of the fields that they set.
var flagOf = map[string]string{
	"event_types": "types", "rate_limit": "rate", "headers": "header", "secrets": "secret", "filters": "filter", "by": "dedupe",
	"lease_duration": "lease",
}

// inFlags words a server's refusal in the terms of the command that was called: a field has the name of
// its flag or argument; one without either is in a document that the user wrote, and keeps its pointer.
func (s *session) inFlags(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || len(refused.Fields) == 0 {
		return err
	}
	said := *refused
	said.Fields, said.Detail = nil, ""
	for i, f := range refused.Fields {
		if i > 0 {
			said.Detail += "; "
		}
		said.Detail += s.flagFor(f.Pointer) + ": " + f.Detail
	}
	return &said
}

// flagFor is the flag that sets a field. The innermost part of a pointer for which the command has a
// flag decides; indexes of lists have none.
func (s *session) flagFor(pointer string) string {
	path := strings.FieldsFunc(pointer, func(r rune) bool { return r == '/' || r == '?' })
	if s.command == nil || len(path) == 0 {
		return pointer
	}
	candidates := []string{strings.Join(path, "-")}
	for _, part := range slices.Backward(path) {
		candidates = append(candidates, flagOf[part], part)
	}
	for _, name := range candidates {
		name = strings.ReplaceAll(name, "_", "-")
		if name != "" && s.command.LocalFlags().Lookup(name) != nil && s.command.InheritedFlags().Lookup(name) == nil {
			return "--" + name
		}
	}
	if argument := strings.ToUpper(path[0]); slices.Contains(strings.Fields(s.command.Use), argument) {
		return argument
	}
	return pointer
}
