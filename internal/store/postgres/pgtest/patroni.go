package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Patroni is a cluster of three servers. The Patroni beside each keeps one of them the primary, by
// a lock in etcd with one member. Each server has an address of its own on loopback, and everything
// between a server and the others goes through proxies: a server can be cut off.
type Patroni struct {
	Members []*Member
	dir     string
	etcd    escort
}

// Member is a server of a cluster with its Patroni.
type Member struct {
	*Server
	Name    string
	Log     *Proxy // to the server, for those that follow it
	Checks  *Proxy // to its Patroni's REST API
	lock    *Proxy // from its Patroni to etcd
	host    string
	patroni string // the program
	file    string // its settings
}

// The least times that Patroni takes, apart from loop_wait.
const (
	PatroniTTL   = 20 * time.Second // until the lock of a primary that is away is free
	patroniRetry = 3
)

// PatroniOptions say how a cluster replicates.
type PatroniOptions struct {
	Sync   bool  // no commit returns before a standby has it, and none at all while there is no standby
	MaxLag int64 // bytes that a standby may lack and yet be promoted; 0: 1 MiB, Patroni's default
}

// clusters counts the clusters of this process.
var clusters atomic.Int64

const patroniSettings = `scope: grapnel
name: %[1]s
restapi:
  listen: %[2]s:8008
  connect_address: %[3]s
etcd3:
  host: %[4]s
  use_proxies: true # else it would go past the proxy, to the address that etcd tells
bootstrap:
  dcs:
    ttl: %[5]d
    loop_wait: 1
    retry_timeout: %[6]d
    maximum_lag_on_failover: %[7]d
    synchronous_mode: %[8]t
    synchronous_mode_strict: %[8]t
    primary_start_timeout: 0
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 100, shared_buffers: 64MB, wal_keep_size: 256MB, wal_retrieve_retry_interval: 200ms}
  initdb: [encoding: UTF8, locale: C, data-checksums, auth: trust]
postgresql:
  listen: %[2]s:5432
  connect_address: %[9]s
  data_dir: %[10]s/data
  bin_dir: %[11]s
  pgpass: %[10]s/pgpass
  basebackup: {checkpoint: fast}
  authentication: # the proxies read no answer to a request for encryption
    superuser: {username: postgres, sslmode: disable, gssencmode: disable}
    replication: {username: postgres, sslmode: disable, gssencmode: disable}
    rewind: {username: postgres, sslmode: disable, gssencmode: disable}
  parameters: {unix_socket_directories: '%[10]s', logging_collector: 'off'}
  pg_hba: [local all all trust, local replication all trust, host all all 127.0.0.0/8 trust, host replication all 127.0.0.0/8 trust]
`

// guardPatroni runs Patroni until its own input ends; then it ends Patroni and PostgreSQL, which is
// no child of Patroni's.
const guardPatroni = `dir=$1; shift
"$@" >>"$dir/log" 2>&1 </dev/null &
patroni=$!
read -r last
kill -KILL $patroni 2>/dev/null
wait $patroni
server=$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null)
[ "$last" = keep ] || {
	[ -z "$server" ] || { kill -QUIT $server; kill -CONT $server; while kill -0 $server; do sleep 0.1; done; } 2>/dev/null
	rm -rf "$dir"
}`

// StartPatroni starts a cluster, and returns when two standbys follow the primary.
func StartPatroni(ctx context.Context, o PatroniOptions) (*Patroni, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	// With Patroni 3.0.2, as in Debian 12, a primary that was frozen takes the lock in etcd back from
	// its successor.
	patroni := os.Getenv("PGTEST_PATRONI")
	if patroni == "" {
		return nil, errors.New("this test needs Patroni: PGTEST_PATRONI=$(tools/patroni.sh)")
	}
	if o.MaxLag == 0 {
		o.MaxLag = 1 << 20
	}
	p := new(Patroni)
	if err := p.start(ctx, o, bin, patroni); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Patroni) start(ctx context.Context, o PatroniOptions, bin, patroni string) (err error) {
	network := int64(os.Getpid())*7 + clusters.Add(1)
	net := fmt.Sprintf("127.%d.%d.", 64+network>>8&63, network&255)
	etcd, err := p.startEtcd(ctx, net+"9")
	if err != nil {
		return err
	}
	for i, name := range []string{"a", "b", "c"} {
		m := &Member{Server: &Server{bin: bin}, Name: name, host: net + strconv.Itoa(i+1), patroni: patroni}
		if m.dir, err = directory(""); err != nil {
			return err
		}
		p.Members = append(p.Members, m)
		if err := m.humble(); err != nil {
			return err
		}
		if m.Log, err = m.NewProxy(); err != nil {
			return err
		}
		if m.Checks, err = NewRelay(m.host + ":8008"); err != nil {
			return err
		}
		if m.lock, err = NewRelay(etcd); err != nil {
			return err
		}
		m.file = filepath.Join(m.dir, "patroni.yml")
		text := fmt.Appendf(nil, patroniSettings, name, m.host, m.Checks.Addr(), m.lock.Addr(), int(PatroniTTL.Seconds()), patroniRetry,
			o.MaxLag, o.Sync, m.Log.Addr(), m.dir, bin)
		if err := errors.Join(os.WriteFile(m.file, text, 0o600), m.own(m.file)); err != nil {
			return err
		}
		if err := m.Start(ctx); err != nil {
			return err
		}
		if i > 0 {
			continue // the others copy the first
		}
		if err := answers(ctx, m.URL("postgres")); err != nil {
			return fmt.Errorf("the first server does not start: %w: %s", err, m.lastWords())
		}
	}
	return p.Whole(ctx, o.Sync)
}

// startEtcd starts etcd, and returns its address.
func (p *Patroni) startEtcd(ctx context.Context, host string) (addr string, err error) {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf("this test needs etcd: apt-get install etcd-server: %w", err)
	}
	if p.dir, err = directory(""); err != nil {
		return "", err
	}
	addr, peers := host+":2379", "http://"+host+":2380"
	shell := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", "-c", beside, "beside", path, "--name=etcd", "--data-dir="+p.dir+"/data",
		"--listen-client-urls=http://"+addr, "--advertise-client-urls=http://"+addr, "--listen-peer-urls="+peers,
		"--initial-advertise-peer-urls="+peers, "--initial-cluster=etcd="+peers, "--logger=zap", "--log-outputs="+p.dir+"/log")
	if err := p.etcd.start(shell); err != nil {
		return "", err
	}
	return addr, until(ctx, func(ctx context.Context) (bool, error) { return ok(ctx, "http://"+addr+"/health") })
}

// Stop ends the cluster and removes its directories.
func (p *Patroni) Stop() (err error) {
	for _, m := range p.Members {
		err = errors.Join(err, m.Stop())
		for _, proxy := range []*Proxy{m.Log, m.Checks, m.lock} {
			if proxy != nil {
				err = errors.Join(err, proxy.Close())
			}
		}
	}
	err = errors.Join(err, p.etcd.end(""))
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// Primary is the member whose Patroni says that it has the lock and takes writes; nil: none. The
// former one is not asked: it may not know yet that it has lost the lock.
func (p *Patroni) Primary(ctx context.Context, without *Member) *Member {
	for _, m := range p.Members {
		if m == without {
			continue
		}
		if yes, err := ok(ctx, "http://"+m.host+":8008/primary"); yes && err == nil {
			return m
		}
	}
	return nil
}

// Promoted waits until another member than the former primary takes writes.
func (p *Patroni) Promoted(ctx context.Context, former *Member, within time.Duration) (next *Member, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for next == nil && err == nil {
		next, err = p.Primary(ctx, former), ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("no standby was promoted: %w", err)
	}
	return next, next.until(ctx, "SELECT NOT pg_is_in_recovery()")
}

// Whole waits until two standbys follow the primary and, with sync, one of them synchronously.
func (p *Patroni) Whole(ctx context.Context, sync bool) error {
	question := "SELECT count(*) = 2 AND (NOT " + strconv.FormatBool(sync) + " OR count(*) FILTER (WHERE sync_state = 'sync') = 1) " +
		"FROM pg_stat_replication WHERE state = 'streaming' AND pg_wal_lsn_diff(sent_lsn, replay_lsn) < 65536"
	var last error
	for range 3 { // until ends after a minute; a copy may take longer on a busy machine
		if last = until(ctx, func(ctx context.Context) (bool, error) {
			primary := p.Primary(ctx, nil)
			if primary == nil {
				return false, errors.New("there is no primary")
			}
			answer, err := primary.Ask(ctx, "SELECT ("+question+")::text")
			return answer == "true", err
		}); last == nil {
			return nil
		}
	}
	said := ""
	for _, m := range p.Members {
		said += "\n" + m.Name + ": " + m.lastWords()
	}
	return fmt.Errorf("the cluster does not become whole: %w%s", last, said)
}

// CaughtUp waits until every standby has replayed every commit of the primary so far.
func (p *Patroni) CaughtUp(ctx context.Context, primary *Member) error {
	at, err := primary.Ask(ctx, "SELECT pg_current_wal_flush_lsn()::text")
	if err != nil {
		return err
	}
	return primary.until(ctx, "SELECT count(*) = 2 FROM pg_stat_replication WHERE replay_lsn >= '"+at+"'::pg_lsn")
}

// Start starts a member with the data that it has.
func (m *Member) Start(ctx context.Context) error {
	return m.running.start(m.command(context.WithoutCancel(ctx), "/bin/sh", "-c", guardPatroni, "guard", m.dir, m.patroni, m.file))
}

// Kill ends Patroni and all processes of PostgreSQL with SIGKILL, as the end of a machine does.
func (m *Member) Kill() error {
	pids, err := m.Suspend()
	for _, pid := range pids {
		err = errors.Join(err, signal(pid, syscall.SIGKILL))
	}
	return errors.Join(err, m.running.end("keep\n"))
}

// Suspend stops Patroni, and all processes of PostgreSQL, with SIGSTOP, like a frozen machine.
func (m *Member) Suspend() ([]int, error) {
	pids, err := m.keepers()
	for _, pid := range pids {
		err = errors.Join(err, signal(pid, syscall.SIGSTOP))
	}
	servers, failed := m.Server.Suspend()
	return append(pids, servers...), errors.Join(err, failed)
}

// Resume continues a member after Suspend, PostgreSQL first.
func (m *Member) Resume() error {
	err := m.Server.Resume()
	pids, failed := m.keepers()
	for _, pid := range pids {
		err = errors.Join(err, signal(pid, syscall.SIGCONT))
	}
	return errors.Join(err, failed)
}

// keepers are the processes of the member's Patroni.
func (m *Member) keepers() (pids []int, err error) {
	return childrenOf(m.running.shell.Process.Pid)
}

// Isolate cuts a member off from etcd, from those that follow it, and from those that ask its
// Patroni. Clients of PostgreSQL have proxies of their own.
func (m *Member) Isolate(on bool) {
	for _, p := range []*Proxy{m.Log, m.Checks, m.lock} {
		p.Blackhole(on)
		if !on {
			p.Cut(false) // the frozen connections end
		}
	}
}

// ok says whether a URL is answered 200 soon.
func ok(ctx context.Context, url string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		return false, err
	}
	return resp.StatusCode == http.StatusOK, resp.Body.Close()
}
