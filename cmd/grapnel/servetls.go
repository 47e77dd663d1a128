package main

import (
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

// tlsFlags are the settings of addresses and certificates that need a check or another form.
type tlsFlags struct{ domains string }

func (f *tlsFlags) add(flags *pflag.FlagSet, o *server.Options) {
	flags.StringVar(&o.ListenIngest, "listen-ingest", "", "another address, which serves requests to sources and nothing else")
	flags.StringVar(&o.ListenStatus, "listen-status", "", "another address, which serves the status page and nothing else")
	flags.StringVar(&o.TLS.Cert, "tls-cert", "", "file with the certificate and its chain: speak HTTPS; read again when it changes")
	flags.StringVar(&o.TLS.Key, "tls-key", "", "file with the key of --tls-cert")
	flags.StringVar(&f.domains, "tls-acme", "", "DOMAIN,… for which certificates are requested by ACME, as from Let's Encrypt: speak HTTPS")
	flags.StringVar(&o.TLS.Directory, "tls-acme-directory", "", "URL of the ACME server's directory; empty: that of Let's Encrypt")
	flags.StringVar(&o.TLS.Email, "tls-acme-email", "", "address for messages of the ACME server")
	flags.StringVar(&o.Redirect, "http-redirect", "", "address that leads browsers from HTTP to HTTPS, and proves domains to the ACME server")
}

// options checks all settings, and writes those that have another form there.
func (f *tlsFlags) options(o *server.Options) error {
	var faults cli.Faults
	for domain := range strings.SplitSeq(f.domains, ",") {
		domain = strings.ToLower(strings.TrimSpace(domain))
		if domain == "" {
			continue
		}
		faults.When(!strings.Contains(strings.Trim(domain, "."), ".") || strings.ContainsAny(domain, "*/: "),
			"--tls-acme %q: it must be the name of a host, such as hooks.example.com", domain)
		o.TLS.Domains = append(o.TLS.Domains, domain)
	}
	acme := len(o.TLS.Domains) > 0
	faults.When((o.TLS.Cert == "") != (o.TLS.Key == ""), "--tls-cert and --tls-key: give both or neither")
	faults.When(acme && o.TLS.Cert != "", "--tls-acme and --tls-cert: give one of them")
	faults.When(!acme && o.TLS.Directory+o.TLS.Email != "", "--tls-acme-directory and --tls-acme-email: they need --tls-acme")
	directory, err := url.Parse(o.TLS.Directory)
	faults.When(o.TLS.Directory != "" && (err != nil || directory.Scheme != "https" || directory.Host == ""),
		"--tls-acme-directory %q: it must be an https:// URL", o.TLS.Directory)
	faults.When(o.Redirect != "" && !acme && o.TLS.Cert == "", "--http-redirect: it needs --tls-cert or --tls-acme")
	for _, address := range []*string{&o.ListenIngest, &o.ListenStatus, &o.Redirect} {
		*address = cli.ListenAddress("", *address)
	}
	return faults.Err()
}
