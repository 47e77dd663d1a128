package svix

import (
	"regexp"
	"strconv"
	"strings"
)

// Channels and tags of a message are metadata of its event, each between commas. The channels of an
// endpoint are its filter: it wants a message that has one of them. Nothing else stores them.
const (
	channelsKey = "svix.channels"
	tagsKey     = "svix.tags"
	eventIDKey  = "svix.event_id"
)

// Limits of channels and tags, as Svix has them.
const (
	mostEndpointChannels = 10
	mostMessageChannels  = 5
	mostTags             = 8
)

var channelForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// checkChannels refuses those that Svix refuses.
func checkChannels(all []string, most int, member string) error {
	if len(all) > most {
		return invalid("must have at most "+strconv.Itoa(most), "body", member)
	}
	for i, name := range all {
		if !channelForm.MatchString(name) {
			return invalid("must be 1 to 128 characters of [A-Za-z0-9_.-]", "body", member, strconv.Itoa(i))
		}
	}
	return nil
}

// joined is a list as metadata; empty: none.
func joined(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "," + strings.Join(all, ",") + ","
}

// parted is the opposite of joined.
func parted(text string) []string {
	if text = strings.Trim(text, ","); text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// filterOf is the filter of an endpoint with channels; empty: it wants every message.
func filterOf(channels []string) string {
	if len(channels) == 0 {
		return ""
	}
	tests := make([]string, len(channels))
	for i, name := range channels {
		tests[i] = test(name)
	}
	return strings.Join(tests, " || ")
}

// test is true of a message that has a channel. A message without channels has no such metadata:
// reading it fails, and a filter that fails does not match.
func test(channel string) string {
	return `event.metadata["` + channelsKey + `"].contains(",` + channel + `,")`
}

// channelsOf are the channels of an endpoint with a filter; false: the filter is another one.
func channelsOf(filter string) ([]string, bool) {
	if filter == "" {
		return nil, true
	}
	var channels []string
	for _, part := range strings.Split(filter, " || ") {
		name := strings.TrimSuffix(strings.TrimPrefix(part, test("")[:strings.Index(test(""), `,,`)+1]), `,")`)
		if !channelForm.MatchString(name) || part != test(name) {
			return nil, false
		}
		channels = append(channels, name)
	}
	return channels, true
}
