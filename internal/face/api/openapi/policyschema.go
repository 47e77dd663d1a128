package openapi

import (
	"maps"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/policy"
)

// The schema of policies is written by hand, because policies are read by package policy and not by
// way of tags. A test gives every preset to it and every property of it to policy.Parse.

const schemaPrefix = "#/components/schemas/"

// named puts a schema into the document once, and refers to it.
func named(r huma.Registry, name string, build func() *huma.Schema) *huma.Schema {
	if _, there := r.Map()[name]; !there {
		r.Map()[name] = &huma.Schema{} // build may come by here again
		s := build()
		s.PrecomputeMessages()
		r.Map()[name] = s
	}
	return &huma.Schema{Ref: schemaPrefix + name}
}

// PolicyOrName is the schema of an endpoint's policy as answers show it, or as requests give it.
func PolicyOrName(r huma.Registry, policy func(huma.Registry) *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Description: "the name of a preset or of a policy of the tenant, or a policy",
		Examples:    []any{"standard"},
		AnyOf:       []*huma.Schema{{Type: huma.TypeString}, policy(r)},
	}
}

// PolicySchema is the schema of a policy that an answer shows.
func PolicySchema(r huma.Registry) *huma.Schema {
	return named(r, "Policy", func() *huma.Schema { return Object(policyProperties()) })
}

// PolicyIn is the schema of a policy that a request brings.
func PolicyIn(r huma.Registry) *huma.Schema {
	return named(r, "InlinePolicy", func() *huma.Schema { return lenient(Object(policyProperties())) })
}

// NewPolicySchema is the schema of a policy that has to have a name.
func NewPolicySchema(r huma.Registry, name, tenant strict.Form) *huma.Schema {
	return named(r, "NewPolicy", func() *huma.Schema {
		properties := policyProperties()
		properties["name"] = formed(name, "")
		properties["tenant"] = formed(tenant, "the key's tenant, else default")
		return lenient(Object(properties, "name"))
	})
}

// PolicyPatchSchema is the schema of a policy of which all may be left out.
func PolicyPatchSchema(r huma.Registry, name strict.Form) *huma.Schema {
	return named(r, "PolicyPatch", func() *huma.Schema {
		properties := mergeable()
		properties["name"] = formed(name, "")
		s := lenient(Object(properties, "name")) // null would take the name away
		s.Required = nil
		return s
	})
}

// PolicyMerged is the schema of a policy in a merge patch of an object that has one.
func PolicyMerged(r huma.Registry) *huma.Schema {
	return named(r, "InlinePolicyPatch", func() *huma.Schema { return lenient(Object(mergeable())) })
}

// mergeable are the properties of a policy of which parts may be given: the other parts stay.
func mergeable() map[string]*huma.Schema {
	properties := policyProperties()
	schedule := Object(map[string]*huma.Schema{})
	for _, one := range properties["schedule"].AnyOf {
		maps.Copy(schedule.Properties, one.Properties)
	}
	schedule.Properties["mode"] = enum(policy.SincePrevious, policy.SinceFirst, policy.Exponential)
	properties["schedule"] = schedule
	for _, one := range properties["jitter"].AnyOf {
		one.Required = nil
	}
	decisions := properties["classify"].AdditionalProperties.(*huma.Schema)
	orNullSchema(decisions)
	return properties
}

// ScenarioSchema is the schema of what policy.ParseScenario reads.
func ScenarioSchema(r huma.Registry) *huma.Schema {
	const year = 366 * 24 * time.Hour
	rate := func(unit string, most float64) *huma.Schema {
		return Object(map[string]*huma.Schema{unit: {Type: huma.TypeNumber, ExclusiveMinimum: new(0.0), Maximum: new(most)}}, unit)
	}
	return named(r, "NewScenario", func() *huma.Schema {
		return lenient(Object(map[string]*huma.Schema{
			"policy": PolicyOrName(r, PolicyIn),
			"outage": Object(map[string]*huma.Schema{
				"kind":     enum(policy.OutageDown, policy.OutageFlaky, policy.OutageSlow, policy.OutageStatus),
				"status":   described(integerFrom(300, 599), "of every answer; required by status"),
				"after":    described(durationFrom(0, year), "from the first event"),
				"duration": durationFrom(time.Millisecond, year),
				"error_rate": {Type: huma.TypeNumber, Minimum: new(0.0), Maximum: new(1.0),
					Description: "the part of the attempts that fail; required by flaky"},
				"latency": described(durationFrom(0, time.Hour), "how long every answer takes; required by slow"),
			}, "duration"),
			"rate": {
				Examples: []any{"4/min"}, Description: `how often events arrive: "4/min", "10/s" or {"per_minute":4}`,
				AnyOf: []*huma.Schema{
					{Type: huma.TypeString, Pattern: `^[0-9]{1,6}(\.[0-9]+)?/(s|sec|second|m|min|minute|h|hour)$`},
					rate("per_second", 1e5),
					rate("per_minute", 6e6),
					rate("per_hour", 3.6e8),
				},
			},
			"duration": described(durationFrom(time.Millisecond, year), "how long events arrive; until the outage ends if not given"),
			"keys":     described(integerFrom(0, 100_000), "number of ordering keys of the events; 0: no order"),
			"seed":     integerFrom(0, policy.MaxSeed),
		}, "outage"))
	})
}

// Object is the schema of an object that has these properties and no others.
func Object(properties map[string]*huma.Schema, required ...string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: required, AdditionalProperties: false}
}

// lenient allows null for properties that are not required, as readers of requests do.
func lenient(s *huma.Schema) *huma.Schema {
	for name, p := range s.Properties {
		lenient(p)
		if !slices.Contains(s.Required, name) {
			s.Properties[name] = orNullSchema(p)
		}
	}
	for _, one := range s.AnyOf {
		lenient(one)
	}
	return s
}

// orNullSchema allows null as well.
func orNullSchema(s *huma.Schema) *huma.Schema {
	switch {
	case s.Ref != "":
		return &huma.Schema{Description: s.Description, AnyOf: []*huma.Schema{{Ref: s.Ref}, {Type: "null"}}}
	case len(s.AnyOf) > 0:
		if last := s.AnyOf[len(s.AnyOf)-1]; last.Type != "null" {
			s.AnyOf = append(s.AnyOf, &huma.Schema{Type: "null"})
		}
	case s.Type != "":
		if len(s.Enum) > 0 && !s.Nullable {
			s.Enum = append(slices.Clip(s.Enum), nil)
		}
		s.Nullable = true
	}
	return s
}

func policyProperties() map[string]*huma.Schema {
	jitter := []*huma.Schema{{Type: huma.TypeNumber, Minimum: new(0.0), Maximum: new(1.0)},
		Object(map[string]*huma.Schema{"add": durationFrom(0, 24*time.Hour)}, "add")}
	return map[string]*huma.Schema{
		"name": {Type: huma.TypeString, Pattern: `^[A-Za-z0-9_.-]{0,64}$`},
		"preset": {Type: huma.TypeString, Examples: []any{policy.DefaultPreset},
			Description: "its base: a preset or a policy of the tenant, from which the fields come that are left out; default if not given"},
		"shape": described(enum(presetNames()...),
			"the preset whose headers, transform, format and ordering apply where the endpoint sets none; that of its base if not given"),
		"timeout":      described(durationFrom(policy.MinTimeout, policy.MaxTimeout), "of one attempt: connecting, sending, the whole answer"),
		"schedule":     scheduleSchema(),
		"jitter":       {AnyOf: jitter, Description: "added to each wait, never subtracted: a fraction of it, or up to a fixed time"},
		"max_attempts": orNullSchema(described(integerFrom(1, policy.MaxAttempts), "null: no limit")),
		"max_age":      orNullSchema(described(durationFrom(time.Nanosecond, policy.MaxAge), "from the first attempt; null: no limit")),
		"success": {Type: huma.TypeArray, MinItems: new(1), Examples: []any{[]string{"2xx"}},
			Items: &huma.Schema{Type: huma.TypeString, Pattern: `^(2xx|2[0-9]{2}(-2[0-9]{2})?)$`}},
		"classify": {
			Type: huma.TypeObject, Description: "statuses (404, 4xx) and error classes (timeout) to decisions",
			AdditionalProperties: enum(policy.Retry, policy.Fail, policy.Throttle, policy.DisableEndpoint),
			Extensions: map[string]any{"propertyNames": &huma.Schema{
				Pattern: codePattern}},
		},
		"limits": {
			Type: huma.TypeArray, MaxItems: new(policy.MaxLimits), Description: "after an answer with one of the codes, narrower max_attempts (attempts) and max_age (within)",
			Items: Object(map[string]*huma.Schema{
				"codes": {Type: huma.TypeArray, MinItems: new(1), MaxItems: new(policy.MaxCodes), Examples: []any{[]string{"422"}},
					Items: &huma.Schema{Type: huma.TypeString, Pattern: codePattern}},
				"attempts": described(integerFrom(1, policy.MaxAttempts), "all attempts of the delivery count, whatever they were answered"),
				"within":   described(durationFrom(time.Nanosecond, policy.MaxAge), "from the first attempt"),
			}, "codes", "attempts"),
		},
		"retry_after": described(enum(policy.RetryAfterExtend, policy.RetryAfterIgnore),
			"extend: a receiver's Retry-After may lengthen a wait, never shorten it"),
		"on_exhausted": enum(policy.DeadLetter, policy.Discard),
		"then":         described(enum(policy.Advance, policy.Block), "after an exhausted delivery the key advances or blocks"),
		"disable": Object(map[string]*huma.Schema{
			"consecutive": described(integerFrom(0, 1_000_000), "0: never"),
			"of": enum(policy.ClassStatus4xx, policy.ClassStatus5xx, policy.ClassTimeout, policy.ClassConnect, policy.ClassDNS, policy.ClassTLS,
				policy.ClassReset, policy.ClassProtocol, policy.ClassRedirect),
			"after":   described(durationFrom(0, policy.MaxAge), "0s: never"),
			"pending": enum(policy.PendingHold, policy.PendingDrop),
		}),
		"breaker": {Description: "false: none; null: the default one", AnyOf: []*huma.Schema{
			Object(map[string]*huma.Schema{
				"failures":  integerFrom(1, 10_000),
				"ratio":     {Type: huma.TypeNumber, ExclusiveMinimum: new(0.0), Maximum: new(1.0)},
				"window":    durationFrom(time.Second, time.Hour),
				"probe":     durationFrom(10*time.Millisecond, time.Hour),
				"probe_max": durationFrom(10*time.Millisecond, 24*time.Hour),
			}),
			{Type: huma.TypeBoolean, Const: false},
			{Type: "null"},
		}},
	}
}

// codePattern is a status, a range or a family of them, or an error class.
const codePattern = `^([1-5]xx|[1-5][0-9]{2}(-[1-5][0-9]{2})?|blocked|connect|dns|protocol|redirect|reset|timeout|tls|nack|lease_over)$`

func presetNames() (names []string) {
	for _, p := range policy.Presets() {
		names = append(names, p.Name)
	}
	return names
}

func scheduleSchema() *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{
		Object(map[string]*huma.Schema{
			"mode": described(enum(policy.SincePrevious, policy.SinceFirst), "start of the count of a delay"),
			"delays": {Type: huma.TypeArray, Items: durationFrom(0, policy.MaxDelay), MinItems: new(1), MaxItems: new(policy.MaxRows),
				Description: "one per attempt; the first is the wait before attempt 1"},
			"tail": described(enum(policy.TailStop, policy.TailRepeat), "stop after the table, or repeat its last wait"),
		}, "delays"),
		Object(map[string]*huma.Schema{
			"mode":   enum(policy.Exponential),
			"base":   described(durationFrom(time.Millisecond, policy.MaxDelay), "the wait before attempt 2"),
			"factor": {Type: huma.TypeNumber, Minimum: new(1.0), Maximum: new(float64(policy.MaxFactor))},
			"max":    described(durationFrom(time.Millisecond, policy.MaxDelay), "longest wait"),
		}, "base"),
	}}
}

func integerFrom(least, most int) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Minimum: new(float64(least)), Maximum: new(float64(most))}
}

func durationFrom(least, most time.Duration) *huma.Schema {
	return formed(strict.Lasting(least, most, policy.Duration(most).String()), "")
}

// formed is the schema of a text of a form.
func formed(looks strict.Form, text string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: text}
	describeForm(&looks, s)
	return s
}

func enum[T ~string](values ...T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

func described(s *huma.Schema, text string) *huma.Schema {
	s.Description = text
	return s
}
