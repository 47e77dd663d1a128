package web

import (
	"reflect"
)

// consent is what a person gives before something is deleted: a word that shows that the page was
// read, and a reason for the audit.
type consent struct {
	Confirm string `json:"confirm" required:"true" maxLength:"100"`
	Reason  string `json:"reason" maxLength:"500"`
}

// consentBlank asks for the word, and for a reason.
func consentBlank(word, help string) *blank {
	return &blank{of: reflect.TypeFor[consent](), rows: []input{
		{at: "confirm", label: "Type " + word + " to confirm", help: help},
		{at: "reason", label: "Reason", help: "for the audit"},
	}}
}

// consentForm is the form of a page that deletes something.
func (v *visit) consentForm(word, help string) (form, error) {
	f, err := v.form(consentBlank(word, help), nil, nil)
	f.Danger = true
	return f, err
}

// consented returns the reason if the word was typed in.
func (v *visit) consented(word string) (reason string, err error) {
	in, err := v.creation(consentBlank(word, ""))
	if err != nil {
		return "", err
	}
	if in["confirm"] != word {
		return "", wrong("confirm", "type "+word+" to confirm; nothing was changed")
	}
	reason, _ = in["reason"].(string)
	return reason, nil
}

// deleteWord confirms that something may be deleted.
const deleteWord = "delete"
