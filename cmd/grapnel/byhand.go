package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/byhand"
)

// verifySettings are the settings of a source that say how it verifies, with the same flags.
var verifySettings = slices.DeleteFunc(slices.Clone(cli.SourceSettings), func(s cli.Setting) bool {
	return !strings.HasPrefix(s.Field, "verify/") || s.Flag == "scheme"
})

// bindVerify adds them to a command that signs or verifies by itself.
func bindVerify(c *cobra.Command, secret string) {
	cli.Bind(c.Flags(), "create", verifySettings)
	c.Flags().Lookup("secret").Usage = secret
}

// verifyFlags reads them.
func (s *session) verifyFlags(name string) (scheme.Settings, error) {
	if _, known := scheme.Of(name); !known {
		return scheme.Settings{}, noScheme(name)
	}
	doc, err := s.Fields(s.command.Flags(), verifySettings, false)
	if err != nil {
		return scheme.Settings{}, err
	}
	var in client.NewVerify
	if err := json.Unmarshal(cli.Encode(doc["verify"]), &in); err != nil {
		return scheme.Settings{}, cli.Usagef("--tolerance: %v", err) // the others are texts
	}
	v := scheme.Settings{Scheme: name, Header: in.Header, Algorithm: in.Algorithm, Encoding: in.Encoding, Prefix: in.Prefix, Signed: in.Signed,
		TimestampHeader: in.TimestampHeader, IDHeader: in.IDHeader, TypeHeader: in.TypeHeader, Tolerance: time.Duration(in.Tolerance),
		Username: in.Username}
	if in.Secret != "" {
		in.Secrets = []string{in.Secret}
	}
	for _, text := range in.Secrets {
		v.Secrets = append(v.Secrets, scheme.Secret{Text: text})
	}
	return v, nil
}

func noScheme(name string) error {
	var all []string
	for _, one := range scheme.All() {
		all = append(all, one.Name)
	}
	return cli.Usagef("%q is no scheme; the nearest is %s", name, cli.Nearest(name, all, 1)[0]).Advise("All: " + strings.Join(all, ", "))
}

// given is a request that the flags or a file give, and the time at which it is judged or signed.
type given struct {
	body, url string
	headers   []string
	at        cli.Moment
}

// bind adds its flags; at is the help of --at.
func (g *given) bind(c *cobra.Command, at string) {
	f := c.Flags()
	f.Var(&g.at, "at", at)
	f.StringVar(&g.body, "body", "", "the body, byte for byte; without it the argument is a whole request")
	cli.Form(f, "TEXT|@FILE|-", "body")
	f.StringArrayVarP(&g.headers, "with-header", "H", nil, "a header of the request; may be repeated")
	cli.Form(f, "'NAME: VALUE'", "with-header")
	f.StringVar(&g.url, "url", "", "URL to which it is sent, for signatures that cover it")
}

// read returns the settings of a command's scheme, and the request with its time.
func (g *given) read(s *session, args []string) (v scheme.Settings, r *scheme.Webhook, at time.Time, err error) {
	if v, err = s.verifyFlags(args[0]); err != nil {
		return v, nil, at, err
	}
	at = s.Now()
	if g.at.Pointer() != nil {
		at = *g.at.Pointer()
	}
	r, err = g.request(s, args[1:])
	return v, r, at, err
}

// request reads it: the file of a whole request, or the parts. Its headers are those of the flags,
// and others of the file.
func (g *given) request(s *session, files []string) (*scheme.Webhook, error) {
	r := &scheme.Webhook{Method: http.MethodPost, URL: "https://localhost/", Header: http.Header{}}
	switch bodied := s.command.Flags().Changed("body"); {
	case bodied && len(files) > 0:
		return nil, cli.Usagef("--body: give it, or %s with a whole request, not both", files[0])
	case bodied:
		body, err := s.Content("--body", g.body)
		if err != nil {
			return nil, err
		}
		r.Body = body
	default:
		name := "-"
		if len(files) > 0 {
			name = files[0]
		}
		if len(files) == 0 && !s.Piped() {
			return nil, misused(s.command, "no request is given: a file, standard input, or --body")
		}
		raw, err := s.wholeRequest(name)
		if err != nil {
			return nil, err
		}
		if r, err = byhand.Read(raw); err != nil {
			return nil, cli.Usagef("%s is not an HTTP request: %v", strings.TrimPrefix(name, "@"), err).
				Advise("A request is a line (POST /hooks HTTP/1.1), headers, an empty line and the body. For a body alone: --body @FILE")
		}
	}
	if g.url != "" {
		r.URL = g.url
	}
	return r, withHeaders(r, g.headers)
}

// wholeRequest reads a file, or standard input for -.
func (s *session) wholeRequest(name string) ([]byte, error) {
	if name == "-" {
		return s.Content("the request", name)
	}
	raw, err := os.ReadFile(strings.TrimPrefix(name, "@"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("%s: file not found; for standard input give -", name)
	}
	return raw, err
}

// withHeaders sets headers as curl's -H does.
func withHeaders(r *scheme.Webhook, lines []string) error {
	set := map[string]bool{}
	for _, line := range lines {
		name, value, is := strings.Cut(line, ":")
		if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); !is || name == "" {
			return cli.Usagef("--with-header %q: a header is NAME: VALUE", line)
		}
		if !set[name] { // the first of a name replaces those of a fixture or file
			r.Header.Del(name)
		}
		set[name] = true
		r.Header.Add(name, strings.TrimSpace(value))
	}
	return nil
}

// requestDocument is a request as JSON.
type requestDocument struct {
	Method  string              `json:"method"`
	URL     string              `json:"url"`
	Headers map[string][]string `json:"headers"`
	Body    string              `json:"body"`
}

// printRequest prints a request as it is on the wire, or as JSON.
func printRequest(s *session, p *cli.Printer, r *scheme.Webhook) error {
	if p.Machine() || s.output == cli.Names {
		return p.Print(single(r.URL, cli.Encode(requestDocument{r.Method, r.URL, r.Header, string(r.Body)})))
	}
	raw, err := byhand.Write(r)
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(raw)
	return err
}

// signRequest signs a request, and says what the receiver's secret is where that is another one.
func (s *session) signRequest(v *scheme.Settings, r *scheme.Webhook, at time.Time) error {
	if err := v.Sign(r, at, grapnel.NewID("msg", at, rand.Reader)); err != nil {
		return cli.Usagef("%s: %v", strings.ToLower(v.Scheme), err)
	}
	return nil
}

// notePublic says the public half of a private key, which the receiver needs.
func (s *session) notePublic(v *scheme.Settings) {
	for _, k := range v.Secrets {
		if half, err := scheme.PublicHalf(v.Scheme, k.Text); err == nil && half != k.Text {
			s.Note("The receiver's secret is the public half of this key: %s", half)
		}
	}
}
