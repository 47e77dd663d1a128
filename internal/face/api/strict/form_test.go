package strict

import (
	"fmt"
	"reflect"
	"testing"
)

// A typing error in a tag must not become a field that takes any text.
func TestUnknownFormsStopTheProgram(t *testing.T) {
	known := Forms{"": {}, "id": {}}
	said := func(try func()) (said string) {
		defer func() { said = fmt.Sprint(recover()) }()
		try()
		return ""
	}
	type inner struct {
		Mail string `json:"mail" form:"mail"`
	}
	type good struct {
		ID string `json:"id" form:"id"`
		A  string `json:"a" form:"^a$"`
	}
	for v, want := range map[any]string{
		good{}:  "<nil>",
		inner{}: `form "mail" of strict.inner.Mail is unknown`,
		struct {
			Of *inner `json:"of"`
		}{}: `form "mail" of strict.inner.Mail is unknown`,
		(*struct {
			All []string `json:"all" form:"ids"`
		})(nil): `form "ids" of struct { All []string "json:\"all\" form:\"ids\"" }.All is unknown`,
		(*struct {
			Map map[string]string `json:"map" names:"x"`
		})(nil): `form "x" of struct { Map map[string]string "json:\"map\" names:\"x\"" }.Map is unknown`,
	} {
		if got := said(func() { known.Check(reflect.TypeOf(v)) }); got != want {
			t.Errorf("said %s, want %s", got, want)
		}
	}
	if got := said(func() { known.Of("mail") }); got != `strict: form "mail" is unknown` {
		t.Error(got)
	}
}
