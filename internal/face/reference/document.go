package reference

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// document is what the pages need of an OpenAPI document.
type document struct {
	Tags []struct{ Name, Description string }
	Tree []struct {
		Name string
		Tags []string
	} `json:"x-tagGroups"`
	Problems   []Problem                       `json:"x-problems"`
	Paths      map[string]map[string]operation // by path and method
	Webhooks   map[string]map[string]operation
	Components struct {
		Schemas map[string]*schema
	}
}

type operation struct {
	ID          string `json:"operationId"`
	Summary     string
	Description string
	Tags        []string
	Scope       string   `json:"x-scope"`
	Also        []string `json:"x-also-at"`
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                *schema
		Example               any
	}
	RequestBody *struct {
		Required    bool
		Description string
		Content     map[string]media
	}
	Responses map[string]struct {
		Ref         string `json:"$ref"`
		Description string
		Headers     map[string]struct{ Description string }
		Content     map[string]media
	}
}

type media struct {
	Schema  *schema
	Example json.RawMessage
}

// schema is a JSON schema. Additional is false, true, a schema, or missing.
type schema struct {
	Ref           string `json:"$ref"`
	Type          any    // a name, or a list of names
	Format        string
	Description   string
	Enum          []any
	AnyOf         []*schema
	Items         *schema
	Properties    map[string]*schema
	Additional    json.RawMessage `json:"additionalProperties"`
	Required      []string
	Pattern       string
	MinLength     *int
	MaxLength     *int
	MinItems      *int
	MaxItems      *int
	Minimum       *float64
	Maximum       *float64
	ExclusiveLow  *float64 `json:"exclusiveMinimum"`
	Shortest      string   `json:"x-minimum"`
	Longest       string   `json:"x-maximum"`
	Encoding      string   `json:"contentEncoding"`
	MaxProperties *int
}

// Problem is a code of the API's errors.
type Problem struct {
	Code, Title, Hint string
	Status            int
	Later             bool
}

// types are the names of the types that a schema allows.
func (s *schema) types() (all []string) {
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			if name, is := one.(string); is {
				all = append(all, name)
			}
		}
	}
	return all
}

// values is the schema of an object's further members; nil: it has none that are described.
func (s *schema) values() *schema {
	var of schema
	if len(s.Additional) == 0 || s.Additional[0] != '{' || json.Unmarshal(s.Additional, &of) != nil {
		return nil
	}
	return &of
}

func slug(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "-") }

const schemaPrefix = "#/components/schemas/"

// each calls use for the name of every schema that this one refers to.
func (s *schema) each(use func(name string)) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		use(strings.TrimPrefix(s.Ref, schemaPrefix))
	}
	s.Items.each(use)
	s.values().each(use)
	for _, one := range s.AnyOf {
		one.each(use)
	}
	for _, one := range s.Properties {
		one.each(use)
	}
}

// names are those of the properties, the required ones first.
func (s *schema) names() []string {
	all := slices.Sorted(maps.Keys(s.Properties))
	required := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(s.Required, name) })
	others := slices.DeleteFunc(all, func(name string) bool { return slices.Contains(s.Required, name) })
	return append(required, others...)
}
