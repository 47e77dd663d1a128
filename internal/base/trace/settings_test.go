package trace

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

func fromVariables(text string) (Settings, error) {
	all := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return FromEnvironment(func(name string) (string, bool) { v, is := all[name]; return v, is })
}

func TestTheStandardVariablesAreRead(t *testing.T) {
	const base = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 "
	for text, want := range map[string]string{
		base:                      "http://c:4318/v1/traces",
		base[:len(base)-1] + "/x": "http://c:4318/x/v1/traces",
		base + "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://d/own": "https://d/own",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://d":            "https://d/",
	} {
		s, err := fromVariables(text)
		if err != nil || s.Endpoint.String() != want || s.JSON || s.Timeout != 10*time.Second || s.Sampler != (Sampler{Ratio: 1}) {
			t.Errorf("%s: %+v %v", text, s, err)
		}
	}
	s, err := fromVariables(base + "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20x,a=b OTEL_EXPORTER_OTLP_PROTOCOL=grpc " +
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json OTEL_EXPORTER_OTLP_TIMEOUT=1500 OTEL_SERVICE_NAME=hooks " +
		"OTEL_RESOURCE_ATTRIBUTES=service.name=other,deployment.environment.name=test OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=0.5")
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{Endpoint: s.Endpoint, Headers: map[string]string{"authorization": "Bearer x", "a": "b"}, JSON: true,
		Timeout: 1500 * time.Millisecond, Sampler: Sampler{Always: true, Ratio: 0.5},
		Attributes: []Attribute{Text("service.name", "hooks"), Text("service.version", grapnel.Version),
			Text("deployment.environment.name", "test")}}
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(Attribute{})); diff != "" {
		t.Error(diff)
	}
	for _, off := range []string{"", "OTEL_EXPORTER_OTLP_ENDPOINT=", base + "OTEL_SDK_DISABLED=true", base + "OTEL_TRACES_EXPORTER=none",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc"} {
		if s, err := fromVariables(off); err != nil || s.Endpoint != nil || New(Options{Settings: s}) != nil {
			t.Errorf("%q turns traces on: %+v %v", off, s, err)
		}
	}
}

// A refusal names the variable and not its value, which may be a credential.
func TestWrongVariablesAreRefused(t *testing.T) {
	const base = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 "
	for _, wrong := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=hunter2:4318", "OTEL_EXPORTER_OTLP_ENDPOINT=ftp://hunter2", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://",
		base + "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", base + "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=hunter2",
		base + "OTEL_EXPORTER_OTLP_HEADERS=hunter2", base + "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=hunter2%zz",
		base + "OTEL_EXPORTER_OTLP_HEADERS=a=hunter2%0d%0ab",
		base + "OTEL_EXPORTER_OTLP_TIMEOUT=hunter2", base + "OTEL_EXPORTER_OTLP_TIMEOUT=0", base + "OTEL_RESOURCE_ATTRIBUTES=hunter2",
		base + "OTEL_TRACES_SAMPLER=hunter2", base + "OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=2",
		base + "OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN",
	} {
		s, err := fromVariables(wrong)
		name, _, _ := strings.Cut(wrong[strings.LastIndex(wrong, "OTEL_"):], "=")
		if grapnel.CodeOf(err) != grapnel.CodeInvalid || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v %v", wrong, s, err)
		}
	}
}
