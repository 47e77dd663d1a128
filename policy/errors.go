package policy

import "strings"

// FieldError is one fault of a document, and its place.
type FieldError struct {
	// a JSON pointer: /schedule/delays/3; empty: the document as a whole
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Errors are all the errors of a document. An empty Errors is returned as nil.
type Errors []FieldError

func (e Errors) Error() string {
	parts := make([]string, len(e))
	for i, f := range e {
		parts[i] = strings.TrimPrefix(f.Pointer+": "+f.Detail, ": ")
	}
	return "policy: " + strings.Join(parts, "; ")
}

// Under returns the errors of a document that is part of another one, at the given pointer.
func (e Errors) Under(pointer string) Errors {
	moved := make(Errors, len(e))
	for i, f := range e {
		moved[i] = FieldError{Pointer: pointer + f.Pointer, Detail: f.Detail}
	}
	return moved
}

// orNil keeps an empty list from becoming an error that is not nil.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e
}
