package grapnel_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

func TestErrorsCarryTheirCodeThroughWrapping(t *testing.T) {
	err := fmt.Errorf("while saving: %w", grapnel.Invalid("/url", "must be absolute"))
	if grapnel.CodeOf(err) != grapnel.CodeInvalid || !strings.Contains(err.Error(), "/url: must be absolute") {
		t.Errorf("%v has code %q", err, grapnel.CodeOf(err))
	}
	if grapnel.CodeOf(errors.New("x")) != "" || grapnel.CodeOf(nil) != "" {
		t.Error("a code out of nowhere")
	}
}

// TestTheDetailNamesTheField: a program that shows only the detail of a problem names the fault.
func TestTheDetailNamesTheField(t *testing.T) {
	if e := grapnel.Invalid("/events", "must be at most %d events", 1000); e.Detail != "/events: must be at most 1000 events" {
		t.Errorf("the detail is %q", e.Detail)
	}
}

func TestSecretsHideThemselves(t *testing.T) {
	s := grapnel.Secret{Text: "whsec_canary"}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", s, "endpoint", grapnel.Endpoint{Secrets: []grapnel.Secret{s}})
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s", s, s, s, s),
		fmt.Sprintf("%+v", grapnel.Endpoint{Secrets: []grapnel.Secret{s}}), logged.String()} {
		if strings.Contains(shown, "canary") {
			t.Errorf("shown: %s", shown)
		}
	}
}

func TestKeysMayWhatTheirScopesSay(t *testing.T) {
	publish, admin := grapnel.Key{Scopes: []grapnel.Scope{grapnel.ScopePublish}}, grapnel.Key{Scopes: []grapnel.Scope{grapnel.ScopeAdmin}}
	for _, s := range grapnel.Scopes() {
		if !admin.May(s) || publish.May(s) != (s == grapnel.ScopePublish) {
			t.Errorf("scope %s: admin %v, publish %v", s, admin.May(s), publish.May(s))
		}
	}
}
