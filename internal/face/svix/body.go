package svix

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// given has the members of a body that are not null, by name. A member that is null is in none, and
// in nulls.
type given struct{ members, nulls map[string]bool }

func (g given) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return g.members[name] })
}

// sets says whether the body has a member, null or not.
func (g given) sets(names ...string) bool {
	return g.has(names...) || slices.ContainsFunc(names, func(name string) bool { return g.nulls[name] })
}

// decode reads the body. Members that the type has not are refused by name: a caller would take
// ignored ones for stored.
func (a *ask) decode(in any) (given, error) {
	g := given{map[string]bool{}, map[string]bool{}}
	body := a.body
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
			return g, invalid("must be an object", "body")
		}
		return g, &fault{status: http.StatusBadRequest, code: "bad_request", detail: "The body is not valid JSON."}
	}
	known := map[string]bool{}
	for field := range reflect.TypeOf(in).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
	}
	for name, value := range all {
		switch null := string(value) == "null"; {
		case !known[name] && !null:
			return g, invalid("unknown field, or one that this server cannot keep", "body", name)
		case null:
			g.nulls[name] = true
		default:
			g.members[name] = true
		}
	}
	err := json.Unmarshal(body, in)
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return g, invalid("must not be a "+wrong.Value, append([]string{"body"}, strings.Split(wrong.Field, ".")...)...)
	}
	if err != nil {
		return g, invalid(strings.TrimPrefix(err.Error(), "json: "), "body")
	}
	return g, nil
}

// uidLabel is the label that keeps the uid of an endpoint. Labels that begin with ours are not
// shown as metadata.
const (
	ours     = "svix."
	uidLabel = ours + "uid"
)

// checkMetadata refuses names that this room keeps its own marks in; the API checks all else.
func checkMetadata(metadata map[string]string) error {
	for name := range metadata {
		if strings.HasPrefix(name, ours) {
			return invalid("must not begin with "+ours, "body", "metadata", name)
		}
	}
	return nil
}

// metadata are the labels without those of this room.
func metadata(labels map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range labels {
		if !strings.HasPrefix(name, ours) {
			all[name] = value
		}
	}
	return all
}

// relabelled is a merge patch that replaces the metadata in labels, and keeps this room's own.
func relabelled(labels, metadata map[string]string) map[string]any {
	patch := map[string]any{}
	for name := range labels {
		if !strings.HasPrefix(name, ours) {
			patch[name] = nil
		}
	}
	for name, value := range metadata {
		patch[name] = value
	}
	return patch
}

// onceLabel is the label that keeps the mark of the request that created an endpoint with a uid.
const onceLabel = ours + "once"

// mark is a hash of the caller's key and the idempotency key; empty: the request has none.
func (a *ask) mark() string {
	key := a.Header.Get("Idempotency-Key")
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(a.who.ID + "\x00" + key))
	return hex.EncodeToString(sum[:8])
}
