package openapi

import (
	"reflect"
	"strings"
	"testing"
)

// TestTwoTypesNeverShareAName: answers with the second type would not be what the document says.
func TestTwoTypesNeverShareAName(t *testing.T) {
	type Promise struct{ Objective float64 }
	first := reflect.TypeFor[Promise]()
	second := func() reflect.Type {
		type Promise struct{ Objective string }
		return reflect.TypeFor[Promise]()
	}()
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "are both named Promise") {
			t.Errorf("the second type was taken: %q", text)
		}
	}()
	d := &describer{types: map[string]reflect.Type{}}
	d.claim(schemaName(first, ""), first)
	d.claim(schemaName(first, ""), first)
	d.claim(schemaName(second, ""), second)
}
