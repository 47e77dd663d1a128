package reference

// Index is the name of the first page.
const Index = "index"

// Heading is a part of the menu.
type Heading struct {
	Name  string
	Pages []*Page
}

// Page is a group of operations, a schema, or a text.
type Page struct {
	Name       string // in its address; index: the first
	Title      string
	About      string
	Operations []*Operation
	Schema     *Schema
	Schemas    []*Schema // all of them, in a page that lists them
	Webhooks   []*Operation
	Problems   []Problem
	Text       string // Markdown that stands before all that
}

// Operation is one thing that can be asked for, or a webhook that the server sends.
type Operation struct {
	ID, Method, Path, Summary, About, Scope string
	Page                                    string // the name of the page that it is on
	Also                                    []string
	Fields                                  []Field // of path, query and headers
	Takes                                   []Piece
	Body                                    []Field
	Optional                                bool // the body
	Request                                 string
	Answers                                 []Answer
	Refusals                                []Refusal
	Rates                                   []string // headers of answers about rates
	Runs                                    bool     // a page can ask it: it changes nothing and answers with JSON
	values                                  map[string]string
}

// Answer is a good answer.
type Answer struct {
	Status string
	Kind   []Piece
	Media  string
	Text   string // an example
}

// Refusal is a status with the codes of its problems.
type Refusal struct {
	Status string
	Codes  []string
}

// Schema is a type with its members.
type Schema struct {
	Name, About string
	Kind        []Piece // of one that is no object
	Fields      []Field
	Operations  []*Operation // that take or give it
	Within      []string     // schemas that have it as a part
	Example     string
}
