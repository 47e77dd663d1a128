package svix

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// strictSDK are the user agents of SDKs that refuse an answer with a member that they do not know:
// those for Go whose version begins with 1. They know the older names, which all answers have too.
var strictSDK = regexp.MustCompile(`^svix-libs/1\.[0-9.]+/go`)

// newer are the members that those SDKs do not know.
var newer = []string{"eventTypes", "throttleRate", "statusText", "canceled"}

// older is an answer without the newer members of its object, or of the objects in its list. What
// callers have put into objects stays as it is.
func older(text []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return text
	}
	for _, name := range newer {
		delete(object, name)
	}
	if _, task := object["task"]; task {
		delete(object, "updatedAt")
		delete(object, "data")
	}
	if list := object["data"]; bytes.HasPrefix(list, []byte("[")) {
		var all []json.RawMessage
		if json.Unmarshal(list, &all) != nil {
			return text
		}
		for i := range all {
			all[i] = older(all[i])
		}
		object["data"], _ = json.Marshal(all)
	}
	shorter, err := json.Marshal(object)
	if err != nil {
		return text
	}
	return shorter
}
