// Package wire has the JSON of the API as Go types: what the server writes is what clients read,
// and what clients write is what the server reads.
//
// The server (internal/face/api) fills these types, and its OpenAPI document is made from their
// tags. Package client has the same types under its own names. So a field that is added here is in
// requests, in answers, in the document and in the client at once.
//
// The tags of a field:
//
//	json              the name; omitempty and omitzero leave the member out of answers while it is zero
//	doc, enum         what the document says of it
//	nullable:"true"   in answers the zero value is null
//	before:"status"   in answers the member stands before this one, which an embedded struct has
//
// and those of requests, which internal/face/api/strict checks:
//
//	required:"true"   a request without it is refused; null is as good as nothing
//	fixed:"true"      it is set when the object is created, and no update changes it
//	default:"key"     the value of a request without it, and of an object that was stored without it
//	form, names       the form of a text, and of a map's names: a name that internal/face/api/forms.go has,
//	                  or a pattern that begins with ^
//	minLength, maxLength, minItems, maxItems, uniqueItems, maxProperties, minimum, maximum
//
// What holds here: a value that was written by Encode and read by encoding/json is the same value,
// with times in UTC and cut to microseconds. A list is never null.
package wire

import "encoding/json"

// Raw keeps the server's own JSON of an object, so that a program can show all of it: fields that
// its version does not know, and numbers with the digits they came with.
type Raw struct{ text json.RawMessage }

// JSON is the object as the server sent it; nil for one that did not come from a server.
func (r Raw) JSON() json.RawMessage { return r.text }

// Keep keeps the object's JSON.
func (r *Raw) Keep(text []byte) { r.text = text }
