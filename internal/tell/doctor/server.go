package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

func (s *Subject) lookAtServer(ctx context.Context) (is serverState) {
	if s.Probe == nil {
		return is
	}
	doc, err := s.Probe.Probe(ctx, true)
	if err == nil {
		var live struct{ Status, Version string }
		is.runs = json.Unmarshal(doc, &live) == nil && live.Status != ""
		is.version = live.Version
	}
	if is.runs {
		if _, err := s.Probe.Probe(ctx, false); err != nil {
			is.refuses = err.Error()
		}
	}
	return is
}

const notRunning = "no server answers"

func checkListen(ctx context.Context, s *Subject) ([]Finding, string) {
	if s.server.runs || s.Listen == "" {
		return nil, ""
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
	if err == nil {
		_ = listener.Close()
		return nil, ""
	}
	return []Finding{bad("a server cannot listen at "+s.Listen+": "+err.Error(), "It would not start.",
		"Find the other program with ss -ltnp and stop it; or choose another --listen.")}, ""
}

func checkReady(_ context.Context, s *Subject) ([]Finding, string) {
	switch {
	case !s.server.runs:
		return nil, notRunning
	case s.server.refuses == "":
		return nil, ""
	}
	return []Finding{bad("the server accepts no events: "+s.server.refuses, "Publishers and providers are refused.",
		"Read its log, and docs/operating.md, \"Is the server healthy?\".")}, ""
}

func checkVersion(_ context.Context, s *Subject) ([]Finding, string) {
	switch {
	case !s.server.runs:
		return nil, notRunning
	case s.server.version == s.Program || s.server.version == "":
		return nil, ""
	}
	return []Finding{worrying("the server is "+s.server.version+", this program is "+s.Program,
		"An upgrade takes effect when the server starts again.", "Restart the server.")}, ""
}

func checkOneServer(_ context.Context, s *Subject) ([]Finding, string) {
	if s.Database == "" {
		return nil, "the data are in PostgreSQL"
	}
	switch pid := s.System.Holder(s.Database); {
	case pid != 0 && !s.server.runs:
		return []Finding{bad(fmt.Sprintf("process %d uses %s, and no server answers at %s", pid, s.Database, s.Listen),
			"A second server on the same database cannot start.", fmt.Sprintf("Look at it with ps -p %d -o args; give doctor its --listen, or stop it.", pid))}, ""
	case pid == 0 && s.server.runs && s.mayHold():
		return []Finding{bad("the server at "+s.Listen+" does not use "+s.Database, "This --store is not the one that it was started with.",
			"Give doctor and the server the same --store, by the same config file.")}, ""
	}
	return nil, ""
}

// mayHold says whether a holder of the database would be seen: only here, and if the server is on
// this machine.
func (s *Subject) mayHold() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	ip := net.ParseIP(host)
	_, linux := os.Stat("/proc/locks")
	number, _ := os.ReadFile(s.Database + ".lock")
	_, lives := os.Stat("/proc/" + strings.TrimSpace(string(number))) // of a process that may be the server
	return err == nil && linux == nil && ip != nil && ip.IsLoopback() && (len(number) == 0 || lives != nil)
}

func checkSchema(ctx context.Context, s *Subject) ([]Finding, string) {
	if _, err := os.Stat(s.Database); s.Database != "" && err != nil {
		return nil, "there is no database yet"
	}
	if s.Schema == nil || s.Database != "" && s.System.Holder(s.Database) != 0 || s.unusable != nil {
		return nil, "a server uses the database, or it cannot be reached"
	}
	if err := s.Schema(ctx); err != nil {
		return []Finding{bad("this program cannot use the database: "+err.Error(), "The server does not start.",
			"Run the version that wrote it or a later one; older programs never open newer databases.")}, ""
	}
	return nil, ""
}

// readEndpoints asks the server for the URLs of enabled endpoints; nil if there is no answer.
func (s *Subject) readEndpoints(ctx context.Context) (urls []string) {
	if !s.server.runs {
		return nil
	}
	for cursor := ""; ; {
		page, err := s.Client.Endpoints(ctx, client.EndpointFilter{Limit: 200, Cursor: cursor})
		if err != nil {
			return urls
		}
		for i := range page.Data {
			ep := &page.Data[i]
			if ep.Status != "enabled" {
				continue
			}
			urls = append(urls, ep.URL)
			if until := ep.ClientCertEnds; until != nil && until.Before(s.soon()) {
				s.ending = append(s.ending, worrying("the client certificate of "+ep.ID+" ends on "+until.Format(time.DateOnly),
					"Its receiver refuses connections from then on.", "Give it another one with grapnel endpoints update --client-cert --client-key."))
			}
		}
		if cursor = page.Next; cursor == "" || len(urls) >= s.Bounds.Hosts*10 {
			return urls
		}
	}
}

func checkKeys(ctx context.Context, s *Subject) (found []Finding, _ string) {
	if !s.server.runs {
		return nil, notRunning
	}
	for cursor := ""; ; {
		page, err := s.Client.Keys(ctx, client.ListFilter{Limit: 200, Cursor: cursor})
		if err != nil {
			return found, "keys cannot be listed: " + err.Error()
		}
		for _, k := range page.Data {
			if k.ExpiresAt != nil && k.ExpiresAt.Before(s.soon()) {
				found = append(found, worrying(fmt.Sprintf("the key %s (%s) ends on %s", k.ID, k.Name, k.ExpiresAt.Format(time.DateOnly)),
					"Programs that use it are refused with 401 from then on.", "Create another one with grapnel keys create, and give it to them."))
			}
		}
		if cursor = page.Next; cursor == "" {
			return found, ""
		}
	}
}

// soon is the time before which certificates and keys end soon.
func (s *Subject) soon() time.Time { return s.Now().AddDate(0, 0, s.Bounds.Days) }
