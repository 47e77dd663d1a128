package cli

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Size is a flag for a number of bytes: "262144", "256KiB", "1MiB".
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1}, {"", 1}}

// Set reads the text form.
func (s *Size) Set(text string) error {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/unit.bytes {
			break
		}
		*s = Size(n * unit.bytes)
		return nil
	}
	return fmt.Errorf("write a number of bytes, such as 262144 or 256KiB")
}

func (s *Size) String() string {
	for _, unit := range sizeUnits[:3] {
		if n := int64(*s); n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type names the kind of value in help texts.
func (*Size) Type() string { return "size" }

// Rate is a flag for a rate: "100", "100/200" or "none", which is nil.
type Rate struct{ Into **grapnel.RateLimit }

// Set reads the text form.
func (r *Rate) Set(text string) error {
	is, err := parseRate(text)
	if err == nil && is != nil {
		if !(is.PerSecond >= grapnel.MinPerSecond && is.PerSecond <= grapnel.MaxPerSecond) || is.Burst > grapnel.MaxPerSecond {
			return fmt.Errorf("write a rate from %v to %v, and a burst of at most as many", grapnel.MinPerSecond, grapnel.MaxPerSecond)
		}
		is.Burst = cmp.Or(is.Burst, int(math.Ceil(is.PerSecond)))
	}
	*r.Into = is
	return err
}

func (r *Rate) String() string {
	if r.Into == nil || *r.Into == nil {
		return "none"
	}
	return strconv.FormatFloat((*r.Into).PerSecond, 'f', -1, 64) + "/" + strconv.Itoa((*r.Into).Burst)
}

// Type names the kind of value in help texts.
func (*Rate) Type() string { return "RATE[/BURST]|none" }

// parseRate reads a rate; a burst that is not given is 0.
func parseRate(text string) (*grapnel.RateLimit, error) {
	if text == "none" {
		return nil, nil //nolint:nilnil // as it says
	}
	first, second, both := strings.Cut(text, "/")
	rate, err := strconv.ParseFloat(first, 64)
	is := &grapnel.RateLimit{PerSecond: rate}
	if err == nil && both {
		is.Burst, err = strconv.Atoi(second)
	}
	if err != nil || both && is.Burst < 1 {
		return nil, fmt.Errorf("%q is not a rate; use a number per second (100), or with a burst (100/200), or none", text)
	}
	return is, nil
}

// DurationVar adds a flag for a duration, in which days may stand: "30d", "1d12h", "90s".
func DurationVar(f *pflag.FlagSet, into *time.Duration, name string, otherwise time.Duration, usage string) {
	*into = otherwise
	f.Var((*duration)(into), name, usage)
}

type duration time.Duration

func (d *duration) Set(text string) error {
	parsed, err := policy.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("write a duration such as 90s, 1h30m or 30d")
	}
	if parsed < 0 {
		return fmt.Errorf("a duration cannot be negative")
	}
	*d = duration(parsed)
	return nil
}

func (d *duration) String() string { return policy.Duration(*d).String() }

// Type names the kind of value in help texts.
func (*duration) Type() string { return "duration" }

// Networks is a flag for address ranges: "10.0.0.0/8,127.0.0.1". Given again, it adds.
type Networks []netip.Prefix

// Set reads the text form.
func (n *Networks) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			addr, single := netip.ParseAddr(part)
			if single != nil {
				return fmt.Errorf("%q is not a range of addresses such as 10.0.0.0/8", part)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if prefix != prefix.Masked() {
			return fmt.Errorf("%q has bits behind its mask; did you mean %v?", part, prefix.Masked())
		}
		*n = append(*n, prefix)
	}
	return nil
}

func (n *Networks) String() string {
	parts := make([]string, len(*n))
	for i, p := range *n {
		parts[i] = p.String()
	}
	return strings.Join(parts, ",")
}

// Type names the kind of value in help texts.
func (*Networks) Type() string { return "cidr,…" }

// Address is a flag for the address of a server: "https://hooks.example.com/grapnel".
type Address struct{ *url.URL }

// Set reads the text form.
func (a *Address) Set(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#") {
		return fmt.Errorf("%q is not an address such as https://hooks.example.com or https://example.com/hooks", text)
	}
	a.URL = u
	return nil
}

func (a *Address) String() string {
	if a.URL == nil {
		return ""
	}
	return a.URL.String()
}

// Type names the kind of value in help texts.
func (*Address) Type() string { return "url" }
