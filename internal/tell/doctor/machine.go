package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

func checkVariables(_ context.Context, s *Subject) (found []Finding, _ string) {
	for _, v := range s.Unknown {
		found = append(found, bad(v.Where+": "+v.Detail, "The setting that was meant has another value.", "Correct the name, or unset "+v.Where+"."))
	}
	return found, ""
}

func checkSettings(_ context.Context, s *Subject) (found []Finding, _ string) {
	for _, v := range s.Faults {
		found = append(found, bad(strings.TrimPrefix(v.Where+": "+v.Detail, ": "), "The server refuses to start, or to reload its settings.",
			"Correct it; grapnel config validate FILE names all faults of a config file."))
	}
	return found, ""
}

func checkRules(_ context.Context, s *Subject) (found []Finding, _ string) {
	for _, p := range s.Allow {
		if p.Bits() == 0 {
			found = append(found, bad("--egress-allow has "+p.String()+", which is every address",
				"A tenant who may create endpoints can reach services inside your network.", "Allow only the ranges that deliveries need."))
		}
	}
	return found, ""
}

func checkDirectory(_ context.Context, s *Subject) (found []Finding, _ string) {
	info, err := os.Stat(s.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, s.Dir + " does not exist yet"
	case err != nil || !info.IsDir():
		return []Finding{bad(s.Dir+" is no directory that can be read", "The server stores its data there.", "Correct --store, or the rights of its parents.")}, ""
	}
	if loose := info.Mode().Perm() & 0o077; loose != 0 {
		found = append(found, bad(fmt.Sprintf("%s has mode %04o", s.Dir, info.Mode().Perm()), "Other users of this machine can read payloads and secrets.",
			"chmod 700 "+s.Dir))
	}
	file, err := os.CreateTemp(s.Dir, ".doctor-*")
	if err != nil {
		return append(found, bad("nothing can be written to "+s.Dir, "The server refuses to start: "+err.Error(), "Run as the user of the server, or correct the owner.")), ""
	}
	_ = errors.Join(file.Close(), os.Remove(file.Name()))
	return found, ""
}

// files are those of the data, with the directory itself.
func (s *Subject) files() (all []string) {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		if e.Type().IsRegular() {
			all = append(all, filepath.Join(s.Dir, e.Name()))
		}
	}
	return append(all, s.Dir)
}

func checkOwners(_ context.Context, s *Subject) (found []Finding, _ string) {
	var foreign []string
	for _, path := range s.files() {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if uid, known := s.System.Owner(info); known && uid != s.System.User {
			foreign = append(foreign, path)
		}
	}
	if len(foreign) == 0 {
		return nil, ""
	}
	return []Finding{bad(say.List(foreign)+" belong to another user than this program's", "A server of this user cannot write them, or another user can change them.",
		fmt.Sprintf("chown -R USER %s, with the user that the server runs as; or run doctor as that user.", s.Dir))}, ""
}

func checkKeyFiles(_ context.Context, s *Subject) (found []Finding, _ string) {
	own := []string{filepath.Join(s.Dir, "admin.key"), filepath.Join(s.Dir, "session.key")}
	for _, path := range slices.Concat(own, s.CertificateKeys) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			continue // absent, or the settings say it
		case info.Mode().Perm()&0o077 != 0:
			found = append(found, bad(fmt.Sprintf("%s has mode %04o", path, info.Mode().Perm()), "Other users of this machine can read the key.",
				"chmod 600 "+path+", and replace the key if they may have read it."))
		}
		if text, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(text))) < 16 {
			found = append(found, bad(path+" contains no key", "The next start fails.", "Write the key into it; or set it with a variable and move the file away."))
		}
	}
	return found, ""
}

// disk is the file system of the data, or of the nearest directory above that exists.
func (s *Subject) disk() (Disk, error) {
	dir, err := filepath.Abs(s.Dir)
	for err == nil {
		if _, missing := os.Stat(dir); missing == nil || dir == filepath.Dir(dir) {
			return s.System.Disk(dir)
		}
		dir = filepath.Dir(dir)
	}
	return Disk{}, err
}

func checkFileSystem(_ context.Context, s *Subject) ([]Finding, string) {
	d, err := s.disk()
	switch {
	case s.Database == "":
		return nil, "the data are in PostgreSQL"
	case err != nil || d.Kind == "":
		return nil, "the kind of the file system is unknown here"
	case slices.Contains([]string{"nfs", "cifs", "smb2", "fuse", "9p", "ceph"}, d.Kind):
		return []Finding{bad(s.Dir+" is on a network file system ("+d.Kind+")", "Locks and syncs there do not protect the database: it can be damaged, or used by two servers.",
			"Move the data directory to a local disk, or use PostgreSQL.")}, ""
	case d.Kind == "tmpfs":
		return []Finding{bad(s.Dir+" is in memory (tmpfs)", "Accepted events are lost when the machine or container ends.", "Move the data directory to a disk, or mount a volume there.")}, ""
	}
	return nil, ""
}

func checkSpace(_ context.Context, s *Subject) ([]Finding, string) {
	d, err := s.disk()
	if err != nil || d.Total == 0 {
		return nil, "free space cannot be measured here"
	}
	if d.Free*100 >= d.Total*uint64(s.Bounds.Free) {
		return nil, ""
	}
	return []Finding{worrying(fmt.Sprintf("%d %% of the disk of %s is free (%s)", d.Free*100/d.Total, s.Dir, say.Bytes(int(d.Free))),
		"Events are refused with 507 when it is full.", "Make space, or shorten --retention; docs/operating.md, \"When the disk is full\".")}, ""
}

func checkInodes(_ context.Context, s *Subject) ([]Finding, string) {
	d, err := s.disk()
	if err != nil || d.Inodes == 0 {
		return nil, "the file system does not count inodes"
	}
	if d.FreeInodes*100 >= d.Inodes*uint64(s.Bounds.Free) {
		return nil, ""
	}
	return []Finding{worrying(fmt.Sprintf("%d %% of the inodes of the disk of %s are free", d.FreeInodes*100/d.Inodes, s.Dir),
		"No file can be created without one, although there is space.", "Find directories with many small files: du --inodes -xS / | sort -n | tail")}, ""
}

func checkSync(_ context.Context, s *Subject) ([]Finding, string) {
	if _, err := os.Stat(s.Dir); err != nil || s.Database == "" {
		return nil, "there is no data directory to measure"
	}
	took, err := s.System.Sync(s.Dir)
	if err != nil {
		return nil, "not measured: " + err.Error()
	}
	if took <= s.Bounds.Sync {
		return nil, ""
	}
	return []Finding{worrying(fmt.Sprintf("a write with its sync takes %s on the disk of %s", say.Took(took), s.Dir),
		"Each commit waits for one: publishes are answered late, and fewer are accepted.", "Use a disk with less latency, or one without other load.")}, ""
}

// syncTime is the median time of some small writes, each with its sync.
func syncTime(dir string) (took time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	times := make([]time.Duration, 21)
	for i := range times {
		began := time.Now()
		if _, err := file.WriteAt(make([]byte, 4096), int64(i)*4096); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

func checkFiles(_ context.Context, s *Subject) ([]Finding, string) {
	n := s.System.Files()
	if n == 0 || n >= s.Bounds.Files {
		return nil, ""
	}
	return []Finding{worrying(fmt.Sprintf("at most %d files and connections may be open", n), "Each request and each attempt needs one; with none left both fail.",
		"ulimit -n 65536 before the server starts, or LimitNOFILE=65536 in its systemd unit.")}, ""
}

func checkMemory(_ context.Context, s *Subject) ([]Finding, string) {
	n := s.System.Memory()
	if n == 0 || n >= s.Bounds.Memory {
		return nil, ""
	}
	return []Finding{worrying("memory is limited to "+say.Bytes(int(n)), "Bodies of requests in progress alone may take 384 MiB; the system ends a process that exceeds its limit.",
		"Raise the limit of the container or unit to "+say.Bytes(int(s.Bounds.Memory))+" or more.")}, ""
}

func checkZone(_ context.Context, s *Subject) ([]Finding, string) {
	if _, err := time.LoadLocation(strings.TrimPrefix(s.Zone, ":")); err == nil || filepath.IsAbs(strings.TrimPrefix(s.Zone, ":")) {
		return nil, ""
	}
	return []Finding{worrying("TZ is "+s.Zone+", a time zone that is unknown here", "Times in texts are UTC without saying so.", "Set TZ to a name such as Europe/Berlin, or unset it.")}, ""
}
