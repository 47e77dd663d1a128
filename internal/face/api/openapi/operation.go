package openapi

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
)

// Description is what the document is made of.
type Description struct {
	Operations []Operation
	Tags       []Tag // in the order in which a reader meets them
	Problems   []Problem
	Problem    any // a value of the type of all problems
	Forms      strict.Forms
}

// Operation describes one route.
type Operation struct {
	Method  string
	Path    string
	Also    []string // other paths of the same route
	Scope   grapnel.Scope
	Query   []Parameter
	Headers []Parameter
	Body    *Body // nil: it takes none
	Bare    bool  // it reads its request itself

	Name    string // the operation's id
	Tag     string
	Summary string
	About   string
	Takes   any         // a value of the body's type
	Gives   map[int]any // a value of the answer's type, by status; nil: no body
	Metered bool        // its answers have the unused part of the tenant's rate
	Example Example
}

// Tag is a group of operations.
type Tag struct {
	Name, About string
	Head        string // what this group and the following ones are part of; empty: as the one before
}

// Example is a request with its answers. Answers that are no JSON are JSON strings here.
type Example struct {
	Path    map[string]string          `json:"path,omitempty"`
	Query   map[string]string          `json:"query,omitempty"`
	Request json.RawMessage            `json:"request,omitempty"`
	Answers map[string]json.RawMessage `json:"answers,omitempty"` // by status
}

// Parameter is a parameter of the query, or a header.
type Parameter struct {
	Name     string
	Doc      string
	Form     strict.Form
	Required bool
	Repeat   bool // several times, or comma separated
}

// Body says what an operation reads.
type Body struct {
	Types    []string // content types; none: any bytes
	Optional bool
}

// Problem is one code that a problem can have.
type Problem struct {
	Code     string `json:"code"`
	Status   int    `json:"status"`
	Title    string `json:"title"`
	Hint     string `json:"hint"`
	Later    bool   `json:"later"` // repeating the request after a moment helps
	Unlisted bool   `json:"-"`     // no operation answers with it
}

// Contents is an answer that is not simply the JSON of a type. schema makes the schema of a value.
type Contents interface {
	Contents(schema func(any) *huma.Schema) map[string]*huma.MediaType
}

// Content types that the document says more about.
const (
	TypeNDJSON     = "application/x-ndjson"
	TypeMergePatch = "application/merge-patch+json"
)

// Text describes an answer that is text.
func Text(doc string) *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: doc}}
}

func header(doc string) *huma.Param {
	return &huma.Param{Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
}
