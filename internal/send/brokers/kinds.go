// Package brokers sends deliveries to message brokers, and reads the messages of sources from them:
// Kafka, RabbitMQ and others. A delivery to a broker is one like any other. Policies, circuits, dead
// letters and replays see its outcome; only the last step differs, in which egress has a driver send
// a message and not a request.
//
// A kind of brokers is one file: it registers a Kind with its driver. Drivers have no network of
// their own: each connection is made by Network.Dial, which checks the address as that of any
// receiver. The libraries behind them repeat no message, since attempts belong to the policy.
//
// A broker takes a message at least once. A driver that gets no answer does not know whether the
// broker has the message, so the next attempt may write it again, with the same id. A Consumer, too,
// gets a message at least once: again, if it ended before the acknowledgement.
package brokers

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// known are the kinds of this project, whether this program has their drivers or not.
var known = []string{"kafka", "nats", "pubsub", "rabbitmq", "redis", "s3", "sns", "sqs"}

// linked are the kinds that this program has, by their names. Each file of a driver adds its own.
var linked = map[string]*Kind{}

// readable says how the brokers of a kind are read, by the names of the kinds.
var readable = map[string]Reading{}

// registerReading adds it. Its result only lets a file register with a variable.
func registerReading(kind string, r Reading) Reading {
	readable[kind] = r
	return r
}

// register adds a kind. Its result only lets a file register with a variable.
func register(k Kind) *Kind {
	linked[k.Name] = &k
	return &k
}

// Linked are the names of the kinds that this program can send to, sorted.
func Linked() []string { return slices.Sorted(maps.Keys(linked)) }

// Known are the names of all kinds, sorted.
func Known() []string { return slices.Clone(known) }

// KindOf is the kind of a target. The fault is that there is none, or that this program lacks it.
func KindOf(name string) (*Kind, *Fault) {
	if k := linked[name]; k != nil {
		return k, nil
	}
	if slices.Contains(known, name) {
		return nil, &Fault{"kind", fmt.Sprintf("is not in this program, which has %s; the flavour \"full\" has it (docs/brokers.md)", list(Linked()))}
	}
	return nil, &Fault{"kind", "must be one of " + list(known)}
}

func list(names []string) string { return strings.Join(names, ", ") }

// Read checks a target by the rows of its kind, and says where its broker is. Whether that address
// may be reached is for egress to say.
func Read(t *grapnel.Target) (*Kind, Place, []*Fault) {
	k, fault := KindOf(t.Kind)
	if fault != nil {
		return nil, Place{}, []*Fault{fault}
	}
	return k.read(t)
}

// ReadSource is Read for a target that messages are read from.
func ReadSource(t *grapnel.Target) (*Kind, Place, []*Fault) {
	k, fault := KindOf(t.Kind)
	if fault != nil {
		return nil, Place{}, []*Fault{fault}
	}
	is := *k
	if is.Reading = readable[k.Name]; is.Reading.Open == nil {
		return nil, Place{}, []*Fault{{"kind", "cannot be read from; a source takes " + list(slices.Sorted(maps.Keys(readable)))}}
	}
	is.What, is.Nameless, is.Filled, is.Options, is.Check = is.Reading.What, false, false, is.Reading.Options, is.Reading.Check
	return is.read(t)
}

func (k *Kind) read(t *grapnel.Target) (*Kind, Place, []*Fault) {
	var faults []*Fault
	place, fault := k.address(t.Address)
	if fault != nil {
		faults = append(faults, fault)
	}
	if t.Name == "" && !k.Nameless {
		faults = append(faults, &Fault{"name", "is required: the " + k.What})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Options)) {
		if f := k.option(name, t.Options[name]); f != nil {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 && k.Check != nil {
		if f := k.Check(t, place); f != nil {
			faults = append(faults, f)
		}
	}
	return k, place, faults
}

// option is the fault of an option.
func (k *Kind) option(name, value string) *Fault {
	field := "options/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	i := slices.IndexFunc(k.Options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		var names []string
		for _, o := range k.Options {
			names = append(names, o.Name)
		}
		if names == nil {
			return &Fault{field, "is unknown; " + k.Name + " has no options"}
		}
		return &Fault{field, "is unknown; " + k.Name + " has " + list(names)}
	}
	o := &k.Options[i]
	if n, err := strconv.ParseUint(value, 10, 31); o.Number && (err != nil || n == 0) {
		return &Fault{field, "must be a whole number above 0"}
	}
	if o.One != nil && !slices.Contains(o.One, value) {
		return &Fault{field, "must be one of " + list(o.One)}
	}
	return nil
}

// address reads "scheme://host:port,host:port/path". Credentials are fields of their own, since an
// address is shown.
func (k *Kind) address(raw string) (p Place, _ *Fault) {
	scheme, rest, found := strings.Cut(raw, "://")
	switch {
	case raw == "":
		return p, &Fault{"address", "is required, as in " + k.sample()}
	case !found, scheme != k.Plain && scheme != k.Secure:
		return p, &Fault{"address", "must begin with " + k.Secure + ":// or " + k.Plain + "://"}
	case strings.ContainsAny(rest, "?#@\\") || strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return p, &Fault{"address", "must have hosts and ports alone, as in " + k.sample() + "; username and password are fields of their own"}
	}
	p.Secure = scheme == k.Secure
	hosts, path, _ := strings.Cut(rest, "/")
	p.Path = strings.TrimSuffix(path, "/")
	if p.Path != "" && k.Path == "" {
		return p, &Fault{"address", "must not have a path, as in " + k.sample()}
	}
	if unescaped, err := url.PathUnescape(p.Path); err == nil {
		p.Path = unescaped
	}
	all := strings.Split(hosts, ",")
	if most := map[bool]int{true: mostHosts, false: 1}[k.Many]; len(all) > most {
		return p, &Fault{"address", fmt.Sprintf("has %d hosts; at most %d are allowed", len(all), most)}
	}
	for _, one := range all {
		at, wrong := k.host(one, p.Secure)
		if wrong != "" {
			return p, &Fault{"address", wrong}
		}
		p.Hosts = append(p.Hosts, at)
	}
	return p, nil
}

// mostHosts bounds an address.
const mostHosts = 16

// host is "host:port" with the usual port if it has none.
func (k *Kind) host(text string, secure bool) (at, wrong string) {
	port := k.Port
	if secure && k.SecurePort != "" {
		port = k.SecurePort
	}
	host := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", "has a port that is not a number from 1 to 65535"
		}
		host, port = h, p
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		if a, err := netip.ParseAddr(host); strings.Contains(host, ":") && (err != nil || !a.Is6()) {
			return "", "has a host that is neither a name nor an address"
		}
	}
	if host == "" {
		return "", "has no host, as in " + k.sample()
	}
	return net.JoinHostPort(strings.ToLower(host), port), ""
}

func (k *Kind) sample() string {
	s := k.Secure + "://broker.example.com"
	if k.Many {
		s += ",other.example.com"
	}
	if k.Path != "" {
		s += "/" + strings.ReplaceAll(k.Path, " ", "-")
	}
	return s
}

// URL is a target, of an endpoint or a source, as one address for people, without credentials: of
// its first host.
func URL(t *grapnel.Target) string {
	k, fault := KindOf(t.Kind)
	if fault != nil {
		return t.Kind + "://" + t.Name
	}
	p, fault := k.address(t.Address)
	if fault != nil {
		return t.Kind + "://" + t.Name
	}
	scheme := k.Plain
	if p.Secure {
		scheme = k.Secure
	}
	return scheme + "://" + p.Hosts[0] + "/" + strings.Trim(p.Path+"/"+t.Name, "/")
}
