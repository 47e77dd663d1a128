package svix

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
)

func notFound(what string) error {
	return &fault{status: http.StatusNotFound, code: "not_found", detail: "The " + what + " does not exist."}
}

func invalid(msg string, loc ...string) error {
	return &fault{status: http.StatusUnprocessableEntity, detail: msg, spots: []spot{{Loc: loc, Msg: msg, Type: "value_error"}}}
}

func conflict(detail string) error {
	return &fault{status: http.StatusConflict, code: "conflict", detail: detail}
}

// refuse writes an error in the form of Svix.
func refuse(w http.ResponseWriter, err error) {
	f, is := errors.AsType[*fault](err)
	if !is {
		f = &fault{status: http.StatusInternalServerError, code: "internal", detail: "The request failed because of an internal error."}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if f.retryAfter != "" {
		h.Set("Retry-After", f.retryAfter)
	}
	if f.challenge != "" {
		h.Set("WWW-Authenticate", f.challenge)
	}
	var body any = map[string]string{"code": f.code, "detail": f.detail}
	if f.status == http.StatusUnprocessableEntity {
		spots := f.spots
		if len(spots) == 0 {
			spots = []spot{{Loc: []string{"body"}, Msg: f.detail, Type: cmp.Or(f.code, "value_error")}}
		}
		body = map[string][]spot{"detail": spots}
	}
	text, _ := json.Marshal(body)
	w.WriteHeader(f.status)
	_, _ = w.Write(text)
}

// missing says whether an error is that something does not exist.
func missing(err error) bool {
	f, is := errors.AsType[*fault](err)
	return is && f.status == http.StatusNotFound
}
