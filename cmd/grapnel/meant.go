package main

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// elsewhere are words that people try as commands, and the command that they mean.
var elsewhere = map[string]string{
	"logs": "tail", "log": "tail", "follow": "tail", "whoami": "config show", "info": "config show", "auth": "login",
	"logout": "context remove", "contexts": "context list", "use": "context use", "resend": "events resend", "publish": "send", "emit": "send", "retry": "deliveries retry",
	"redeliver": "deliveries retry", "requeue": "dlq replay", "dashboard": "open", "ui": "open", "run": "serve", "server": "serve", "start": "serve",
	"up": "serve", "demo": "dev", "forward": "listen", "tunnel": "listen", "proxy": "listen", "consume": "queues consume", "ack": "queues ack",
	"ping": "health", "check": "doctor", "webhooks": "endpoints", "subscriptions": "endpoints", "hooks": "endpoints", "apps": "tenants",
	"customers": "tenants", "schemas": "types", "event-types": "types", "messages": "events", "failed": "dlq list", "dead-letters": "dlq",
	"metrics": "monitoring export", "grafana": "monitoring export",
	"prometheus": "monitoring export", "maintenance": "incidents plan", "inspect": "why", "explain": "why", "settings": "config show", "env": "config show", "flags": "help flags", "topics": "help topics",
}

// synonyms are other words for the verbs of a group.
var synonyms = map[string]string{
	"add": "create", "new": "create", "make": "create", "rm": "delete", "remove": "delete", "del": "delete", "destroy": "delete", "revoke": "delete",
	"ls": "list", "all": "list", "describe": "get", "view": "get", "inspect": "get", "read": "get", "edit": "update", "set": "update",
	"change": "update", "patch": "update", "redeliver": "retry", "resend": "retry", "stop": "pause", "disable": "pause", "start": "resume",
	"continue": "resume", "unpause": "resume",
}

// wrongWord refuses a word that is no command of a group, and names the command that was meant.
func wrongWord(cmd *cobra.Command, word string) error {
	f := cli.Usagef("%q is not a command of %s", word, cmd.CommandPath())
	has := func(c *cobra.Command, name string) bool {
		return slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name || sub.HasAlias(name) })
	}
	verb := word
	if synonyms[word] != "" {
		verb = synonyms[word]
	}
	var of []string // root's groups with that verb
	if !cmd.HasParent() {
		for _, sub := range cmd.Commands() {
			if has(sub, verb) {
				of = append(of, sub.CommandPath()+" "+verb)
			}
		}
	}
	near := cmd.SuggestionsFor(word)
	switch {
	case !cmd.HasParent() && elsewhere[word] != "":
		f.Next = "Use: grapnel " + elsewhere[word]
	case has(cmd, verb):
		f.Next = "Did you mean " + verb + "?"
	case len(of) > 0:
		f.Next = "Say of what: " + strings.Join(of[:min(len(of), 5)], ", ")
	case len(near) > 0:
		f.Next = "Did you mean " + cli.Nearest(word, near, 1)[0] + "?"
	default:
		f.Next = "See: " + cmd.CommandPath() + " --help"
	}
	return f
}

// wrongFlag words the fault of a flag.
func wrongFlag(err error) string {
	invalid, is := errors.AsType[*pflag.InvalidValueError](err)
	if !is {
		return err.Error()
	}
	why := invalid.Unwrap().Error()
	if _, number := errors.AsType[*strconv.NumError](err); number {
		why = "must be " + map[string]string{"bool": "true or false", "float64": "a number"}[invalid.GetFlag().Value.Type()]
		if strings.HasSuffix(why, " ") {
			why += "a whole number"
		}
	}
	return "--" + invalid.GetFlag().Name + " " + invalid.GetValue() + ": " + why
}

// ofGroup is how cobra's error names flags that exclude each other.
var ofGroup = regexp.MustCompile(`^if any flags in the group \[(.*?)\]`)

// wrongGroup words the fault of flags that do not go together.
func wrongGroup(err error) string {
	found := ofGroup.FindStringSubmatch(err.Error())
	if found == nil {
		return err.Error()
	}
	return "give one of --" + strings.ReplaceAll(found[1], " ", ", --")
}
