package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Settings are where spans go and which are made.
type Settings struct {
	Endpoint   *url.URL // takes POST requests with spans; nil: no spans are made
	Headers    map[string]string
	JSON       bool // the bodies are JSON; else protobuf
	Gzip       bool // the bodies are compressed
	TLS        *tls.Config
	Timeout    time.Duration
	Attributes []Attribute // of this process, such as service.name
	Sampler    Sampler
}

// Sampler decides which new spans are recorded.
type Sampler struct {
	Always bool    // ignore what the caller of a publish has decided
	Ratio  float64 // of traces without a caller, or of all if Always
}

// The environment variables of OpenTelemetry that FromEnvironment reads. Those of one signal come
// before the general ones.
const (
	varEndpoint   = "OTEL_EXPORTER_OTLP_ENDPOINT"
	varTraces     = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	varHeaders    = "OTEL_EXPORTER_OTLP_HEADERS"
	varProtocol   = "OTEL_EXPORTER_OTLP_PROTOCOL"
	varGzip       = "OTEL_EXPORTER_OTLP_COMPRESSION"
	varTimeout    = "OTEL_EXPORTER_OTLP_TIMEOUT"
	varRoots      = "OTEL_EXPORTER_OTLP_CERTIFICATE"
	varOwn        = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
	varOwnKey     = "OTEL_EXPORTER_OTLP_CLIENT_KEY"
	varService    = "OTEL_SERVICE_NAME"
	varResource   = "OTEL_RESOURCE_ATTRIBUTES"
	varSampler    = "OTEL_TRACES_SAMPLER"
	varSamplerArg = "OTEL_TRACES_SAMPLER_ARG"
	varExporter   = "OTEL_TRACES_EXPORTER"
	varDisabled   = "OTEL_SDK_DISABLED"
)

const defaultTimeout = 10 * time.Second

// FromEnvironment reads the standard variables of OpenTelemetry. Without an endpoint, Settings are
// zero. An error names the variable and never its value, which may be a credential.
func FromEnvironment(lookup func(string) (string, bool)) (s Settings, err error) {
	get := func(name string) string {
		text, _ := lookup(name)
		return strings.TrimSpace(text)
	}
	signal := func(name string) (from, text string) {
		own := strings.Replace(name, "OTLP_", "OTLP_TRACES_", 1)
		if text := get(own); text != "" {
			return own, text
		}
		return name, get(name)
	}
	if get(varDisabled) == "true" || get(varExporter) == "none" || get(varTraces) == "" && get(varEndpoint) == "" {
		return Settings{}, nil
	}
	if s.Endpoint, err = endpointOf(get(varTraces), get(varEndpoint)); err != nil {
		return Settings{}, err
	}
	switch from, text := signal(varProtocol); text {
	case "", "http/protobuf":
	case "http/json":
		s.JSON = true
	default:
		return Settings{}, fault(from, "the protocols are http/protobuf and http/json")
	}
	switch from, text := signal(varGzip); text {
	case "", "none":
	case "gzip":
		s.Gzip = true
	default:
		return Settings{}, fault(from, "it takes gzip or none")
	}
	if s.TLS, err = tlsOf(signal); err != nil {
		return Settings{}, err
	}
	from, text := signal(varHeaders)
	if s.Headers, err = pairs(from, text); err != nil {
		return Settings{}, err
	}
	s.Timeout = defaultTimeout
	if from, text := signal(varTimeout); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 || ms > 600_000 {
			return Settings{}, fault(from, "it takes milliseconds, from 1 to 600000")
		}
		s.Timeout = time.Duration(ms) * time.Millisecond
	}
	resource, err := pairs(varResource, get(varResource))
	if err != nil {
		return Settings{}, err
	}
	s.Attributes = []Attribute{Text("service.name", cmp.Or(get(varService), resource["service.name"], "grapnel")),
		Text("service.version", grapnel.Version)}
	delete(resource, "service.name")
	delete(resource, "service.version")
	for _, key := range slices.Sorted(maps.Keys(resource)) {
		s.Attributes = append(s.Attributes, Text(key, resource[key]))
	}
	s.Sampler, err = samplerOf(get(varSampler), get(varSamplerArg))
	return s, err
}

// endpointOf is the address for spans: its own variable is used as it is, the general one is the
// base of the paths of all signals.
func endpointOf(own, base string) (*url.URL, error) {
	name, text := varTraces, own
	if own == "" {
		name, text = varEndpoint, base
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fault(name, "it takes the URL of a collector, such as http://localhost:4318")
	}
	if own == "" {
		u = u.JoinPath("v1/traces")
	} else if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// tlsOf reads the files with the collector's authorities and with this process's own certificate.
// nil: the machine's authorities, and no certificate.
func tlsOf(signal func(string) (from, text string)) (*tls.Config, error) {
	rootsFrom, roots := signal(varRoots)
	ownFrom, own := signal(varOwn)
	_, key := signal(varOwnKey)
	if roots+own+key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if roots != "" {
		c.RootCAs = x509.NewCertPool()
		if pem, err := os.ReadFile(roots); err != nil || !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault(rootsFrom, "it takes the path of a readable PEM file with certificates")
		}
	}
	if own+key != "" {
		pair, err := tls.LoadX509KeyPair(own, key)
		if err != nil {
			return nil, fault(ownFrom, "it takes the path of a PEM file with a certificate, and the variable for the client key that of its key")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func samplerOf(name, ratio string) (Sampler, error) {
	s := Sampler{Ratio: 1}
	if strings.HasSuffix(name, "traceidratio") && ratio != "" {
		r, err := strconv.ParseFloat(ratio, 64)
		if err != nil || !(r >= 0 && r <= 1) {
			return s, fault(varSamplerArg, "it takes a number from 0 to 1")
		}
		s.Ratio = r
	}
	switch name {
	case "", "parentbased_always_on", "parentbased_traceidratio":
	case "always_on", "traceidratio":
		s.Always = true
	case "always_off":
		s.Always, s.Ratio = true, 0
	case "parentbased_always_off":
		s.Ratio = 0
	default:
		return s, fault(varSampler, "the samplers are always_on, always_off, traceidratio, and these with parentbased_ before them")
	}
	return s, nil
}

// pairs reads name=value,… with percent-encoded values.
func pairs(variable, text string) (map[string]string, error) {
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, is := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !is || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n") {
			return nil, fault(variable, "it takes NAME=VALUE,… with percent-encoded values")
		}
		all[name] = value
	}
	return all, nil
}

func fault(variable, says string) error {
	return grapnel.Errorf(grapnel.CodeInvalid, "%s: %s", variable, says)
}
