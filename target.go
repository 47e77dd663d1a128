package grapnel

import "maps"

// Target is a broker that takes an endpoint's deliveries as messages, in the place of a URL, or one
// whose messages are a source's events.
type Target struct {
	Kind     string // a kind of package brokers: "kafka", "nats" …
	Address  string // of the broker, as its kind writes it: "kafka://b1:9092,b2:9092"
	Name     string // topic, subject, stream, exchange or queue
	Username string
	Password Secret
	Options  map[string]string // of the kind
}

// Same says whether two targets are alike in everything; nil is no target.
func (t *Target) Same(o *Target) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Kind == o.Kind && t.Address == o.Address && t.Name == o.Name && t.Username == o.Username &&
		t.Password.Text == o.Password.Text && maps.Equal(t.Options, o.Options)
}
