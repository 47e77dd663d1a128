package seal

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/grapnelhq/grapnel"
)

// table is a Table in memory. It refuses writes once left is used up.
type table struct {
	keys map[string]DataKey
	left int
}

var errDown = errors.New("down")

func (t *table) DataKeys(context.Context) ([]DataKey, error) {
	return slices.SortedFunc(maps.Values(t.keys), func(a, b DataKey) int { return strings.Compare(a.Tenant, b.Tenant) }), nil
}

func (t *table) DataKey(_ context.Context, tenant string) (DataKey, bool, error) {
	k, found := t.keys[tenant]
	return k, found, nil
}

func (t *table) AddDataKey(_ context.Context, k DataKey) error {
	if _, found := t.keys[k.Tenant]; !found {
		t.keys[k.Tenant] = k
	}
	return nil
}

func (t *table) WrapDataKey(_ context.Context, k DataKey, other string) error {
	if t.left--; t.left < 0 {
		return errDown
	}
	if t.keys[k.Tenant].Master == other {
		t.keys[k.Tenant] = k
	}
	return nil
}

var one, two = strings.Repeat("one ", 9) + "\n", strings.Repeat("two ", 9) + "\n"

// keyFile writes a file of master keys, and returns its source and its path.
func keyFile(t *testing.T, lines string) (Source, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "master.key")
	write(t, path, lines)
	return source(t, "file:"+path), path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func source(t *testing.T, text string) Source {
	t.Helper()
	s, err := ParseSource(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sealer(t *testing.T, s Source, of *table) *Sealer {
	t.Helper()
	has, _ := of.DataKeys(t.Context())
	got, err := New(t.Context(), s, has, of, false)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func opens(t *testing.T, s *Sealer, at At, sealed []byte, want string) {
	t.Helper()
	if got, err := s.Open(t.Context(), at, sealed); err != nil || string(got) != want {
		t.Errorf("opened %q, %v; want %q", got, err, want)
	}
}

// TestSealedBytesAreBoundToTheirRow: they open at their place alone, and no changed byte is taken.
func TestSealedBytesAreBoundToTheirRow(t *testing.T) {
	of := &table{keys: map[string]DataKey{}}
	from, _ := keyFile(t, one)
	s := sealer(t, from, of)
	at := At{"acme", "endpoint", "ep_1"}
	sealed, err := s.Seal(t.Context(), at, []byte("secret"))
	if err != nil || !Is(sealed) || strings.Contains(string(sealed), "secret") {
		t.Fatalf("%q, %v", sealed, err)
	}
	opens(t, s, at, sealed, "secret")
	opens(t, sealer(t, from, of), at, sealed, "secret")
	opens(t, s, at, []byte(`{"in":"clear"}`), `{"in":"clear"}`)
	if _, err := s.Seal(t.Context(), At{"other", "endpoint", "ep_1"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []At{{"acme", "endpoint", "ep_2"}, {"acme", "source", "ep_1"}, {"other", "endpoint", "ep_1"}, {"nobody", "endpoint", "ep_1"},
		{"acme", "endpointep_1", ""}} {
		if got, err := s.Open(t.Context(), wrong, sealed); err == nil {
			t.Errorf("%+v opened %q", wrong, got)
		}
	}
	for i := range sealed[1:] {
		bad := slices.Clone(sealed)
		bad[i+1] ^= 1
		if _, err := s.Open(t.Context(), at, bad); err == nil {
			t.Errorf("a change of byte %d was not noticed", i+1)
		}
	}
	// The wrapped key of one tenant is none of another.
	moved := of.keys["acme"]
	moved.Tenant = "other"
	if _, err := New(t.Context(), from, []DataKey{moved}, of, false); !errors.Is(err, errWrongMaster) {
		t.Error(err)
	}
}

// TestADestroyedDataKeyIsForgotten: a key that the table still has stays. Once that has gone, what it
// sealed opens no more, whether or not the tenant has a new key, and other tenants keep theirs.
func TestADestroyedDataKeyIsForgotten(t *testing.T) {
	for _, alone := range []bool{false, true} {
		of := &table{keys: map[string]DataKey{}}
		from, _ := keyFile(t, one)
		s, err := New(t.Context(), from, nil, of, alone)
		if err != nil {
			t.Fatal(err)
		}
		at, other := At{"acme", "endpoint", "ep_1"}, At{"bolt", "endpoint", "ep_2"}
		seal := func(at At) []byte {
			sealed, err := s.Seal(t.Context(), at, []byte("secret"))
			if err != nil {
				t.Fatal(err)
			}
			return sealed
		}
		forget := func() {
			if err := s.Recheck(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
		}
		sealed, theirs := seal(at), seal(other)
		forget()
		opens(t, s, at, sealed, "secret")
		delete(of.keys, "acme")
		opens(t, s, at, sealed, "secret") // from memory
		forget()
		for range 2 {
			if got, err := s.Open(t.Context(), at, sealed); !errors.Is(err, ErrNoKey) {
				t.Errorf("alone %v: opened %q, %v", alone, got, err)
			}
			opens(t, s, at, seal(at), "secret") // with a new key
			forget()
		}
		opens(t, s, other, theirs, "secret")
	}
	if err := (*Sealer)(nil).Recheck(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
}

// TestWithoutTheMasterKey: a sealed database needs its own, and one in clear needs none.
func TestWithoutTheMasterKey(t *testing.T) {
	of := &table{keys: map[string]DataKey{}}
	from, _ := keyFile(t, one)
	sealed, _ := sealer(t, from, of).Seal(t.Context(), At{}, []byte("x"))
	has, _ := of.DataKeys(t.Context())
	other, _ := keyFile(t, two)
	for s, want := range map[Source]error{{}: errNoMaster, other: errWrongMaster} {
		if _, err := New(t.Context(), s, has, of, false); !errors.Is(err, want) || grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("%v; want %v", err, want)
		}
	}
	none, err := New(t.Context(), Source{}, nil, of, false)
	if none != nil || err != nil {
		t.Fatal(none, err)
	}
	if got, err := none.Seal(t.Context(), At{}, []byte("x")); string(got) != "x" || err != nil {
		t.Error(got, err)
	}
	if _, err := none.Open(t.Context(), At{}, sealed); !errors.Is(err, errNoMaster) {
		t.Error(err)
	}
	if _, err := none.Rotate(t.Context()); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Error(err)
	}
}

// TestRotationGoesOn: it stops after each possible write, and a new process goes on with both keys.
// Before its end no process is without one of them, and afterwards the old key is not needed.
func TestRotationGoesOn(t *testing.T) {
	of := &table{keys: map[string]DataKey{}}
	from, path := keyFile(t, one)
	s := sealer(t, from, of)
	sealed := map[string][]byte{}
	for _, tenant := range []string{"", "acme", "other"} {
		sealed[tenant], _ = s.Seal(t.Context(), At{Tenant: tenant}, []byte("secret of "+tenant))
	}
	write(t, path, "# new\n"+two+"\n"+one)
	for stopped := range 3 {
		of.left = 1
		done, err := sealer(t, from, of).Rotate(t.Context())
		if last := stopped == 2; last != (err == nil) || last && (done.Keys != 3 || done.Wrapped != 1) {
			t.Fatalf("stop %d: %+v, %v", stopped, done, err)
		}
		for tenant, b := range sealed {
			opens(t, s, At{Tenant: tenant}, b, "secret of "+tenant) // the process that was there before
			opens(t, sealer(t, from, of), At{Tenant: tenant}, b, "secret of "+tenant)
		}
	}
	// A process that has not rotated wraps a new data key with the new master key, too.
	if _, err := s.Seal(t.Context(), At{Tenant: "late"}, nil); err != nil {
		t.Fatal(err)
	}
	write(t, path, two)
	for tenant, b := range sealed {
		opens(t, sealer(t, from, of), At{Tenant: tenant}, b, "secret of "+tenant)
	}
	// A key that is gone is told, and nothing changes.
	write(t, path, one)
	before := maps.Clone(of.keys)
	if _, err := s.Rotate(t.Context()); !errors.Is(err, errWrongMaster) || len(before) != len(of.keys) {
		t.Error(err)
	}
}

// TestSources: each kind of source, and what it says when there is no key.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "master")
	write(t, path, one)
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	t.Setenv("GRAPNEL_TEST_MASTER", one)
	// A program may leave a child that has its output open: here one that lives as long as the directory.
	program := filepath.Join(dir, "program")
	write(t, program, "while [ -e $0 ]; do sleep 0.1; done &\ncat "+path+"\n")
	kinds := []string{"file:" + path, "env:GRAPNEL_TEST_MASTER", "credential:master", "command:cat " + path, "command:sh " + program}
	of := &table{keys: map[string]DataKey{}}
	sealed, err := sealer(t, source(t, kinds[0]), of).Seal(t.Context(), At{}, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds { // all are the same key
		opens(t, sealer(t, source(t, kind), of), At{}, sealed, "secret")
	}

	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []string{identity.String(), hybrid.String()} {
		of := &table{keys: map[string]DataKey{}}
		file := filepath.Join(dir, "age")
		write(t, file, "# created\n"+is+"\n")
		s := sealer(t, source(t, "age:"+file), of)
		sealed, err := s.Seal(t.Context(), At{}, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		opens(t, sealer(t, source(t, "age:"+file), of), At{}, sealed, "secret")
		moved := of.keys[""]
		moved.Tenant = "other"
		if _, err := New(t.Context(), source(t, "age:"+file), []DataKey{moved}, of, false); !errors.Is(err, errWrongMaster) {
			t.Error(err)
		}
	}

	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, err := New(t.Context(), source(t, "credential:master"), nil, of, false); grapnel.CodeOf(err) != grapnel.CodeInvalid {
		t.Error(err)
	}
	write(t, filepath.Join(dir, "short"), "tooshort-tooshort-tooshort\n")
	write(t, filepath.Join(dir, "none"), "# nothing\n")
	for _, bad := range []string{"file:" + dir + "/away", "env:GRAPNEL_TEST_AWAY", "credential:away", "command:false", "command:echo tooshort",
		"age:" + path, "file:" + dir + "/short", "file:" + dir + "/none"} {
		_, err := New(t.Context(), source(t, bad), nil, of, false)
		if grapnel.CodeOf(err) != grapnel.CodeInvalid || strings.Contains(err.Error(), "tooshort") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, bad := range []string{"the-key-itself-the-key-itself-the-key", "file:", "keychain:x"} {
		if _, err := ParseSource(bad); grapnel.CodeOf(err) != grapnel.CodeInvalid || strings.Contains(err.Error(), "itself-") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
