package seal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"

	"filippo.io/age"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/grapnelhq/grapnel"
)

// master is a master key: its id, which says nothing about it, and its cipher.
type master struct {
	id string
	tink.AEAD
}

// masters are the keys of a source. The first wraps; all unwrap.
type masters []master

// ofText makes a master key of a line of text. The text is long and random, so it needs no slow
// hash.
func ofText(line string) (master, error) {
	derive := func(use string, n int) ([]byte, error) {
		return hkdf.Key(sha256.New, []byte(line), nil, "grapnel master key: "+use, n)
	}
	id, err := derive("id", 8)
	if err != nil {
		return master{}, err
	}
	key, err := derive("wrapping", 32)
	if err != nil {
		return master{}, err
	}
	cipher, err := subtle.NewAESGCM(key)
	return master{hex.EncodeToString(id), cipher}, err
}

// ofAge makes a master key of an identity of age, which wraps for its own recipient.
func ofAge(identity age.Identity) (master, error) {
	var to age.Recipient
	var name string
	switch is := identity.(type) {
	case *age.X25519Identity:
		to, name = is.Recipient(), is.Recipient().String()
	case *age.HybridIdentity:
		to, name = is.Recipient(), is.Recipient().String()
	default:
		return master{}, grapnel.Errorf(grapnel.CodeInvalid, "this kind of age identity cannot be a master key")
	}
	id := sha256.Sum256([]byte(name))
	return master{hex.EncodeToString(id[:8]), aged{to, identity}}, nil
}

// aged is age as a cipher. age knows no associated data: they are encrypted too, and compared.
type aged struct {
	to age.Recipient
	by age.Identity
}

func (a aged) Encrypt(plain, associated []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, a.to)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(associated)
	if _, err := w.Write(append(sum[:], plain...)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil { // it writes the rest
		return nil, err
	}
	return b.Bytes(), nil
}

func (a aged) Decrypt(wrapped, associated []byte) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(wrapped), a.by)
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(r)
	sum := sha256.Sum256(associated)
	if err != nil || !bytes.HasPrefix(plain, sum[:]) {
		return nil, errWrongMaster
	}
	return plain[len(sum):], nil
}

func (all masters) find(id string) int {
	return slices.IndexFunc(all, func(m master) bool { return m.id == id })
}

func (all masters) has(id string) bool { return all.find(id) >= 0 }

// bound is what a wrapped key is bound to: the wrapped key of one tenant is not that of another.
func (k *DataKey) bound() []byte { return At{k.Tenant, "data key", ""}.bytes() }

// fresh makes a data key.
func (all masters) fresh(tenant string) (DataKey, error) {
	key, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return DataKey{}, err
	}
	return all.wrap(tenant, key)
}

func (all masters) wrap(tenant string, key *keyset.Handle) (DataKey, error) {
	k := DataKey{Tenant: tenant, Master: all[0].id}
	var b bytes.Buffer
	err := key.WriteWithAssociatedData(keyset.NewBinaryWriter(&b), all[0], k.bound())
	k.Wrapped = b.Bytes()
	return k, err
}

func (all masters) wrapAgain(k DataKey) (DataKey, error) {
	key, err := all.read(k)
	if err != nil {
		return DataKey{}, err
	}
	return all.wrap(k.Tenant, key)
}

func (all masters) read(k DataKey) (*keyset.Handle, error) {
	at := all.find(k.Master)
	if at < 0 {
		return nil, errWrongMaster
	}
	key, err := keyset.ReadWithAssociatedData(keyset.NewBinaryReader(bytes.NewReader(k.Wrapped)), all[at], k.bound())
	if err != nil {
		return nil, errWrongMaster
	}
	return key, nil
}

// cipher is an unwrapped data key.
type cipher struct {
	tink.AEAD
	begin []byte // of everything that it seals: Tink's prefix, with the id of the key
}

func (all masters) unwrap(k DataKey) (*cipher, error) {
	key, err := all.read(k)
	if err != nil {
		return nil, err
	}
	made, err := aead.New(key)
	return &cipher{made, binary.BigEndian.AppendUint32([]byte{tinkPrefix}, key.KeysetInfo().GetPrimaryKeyId())}, err
}

const tinkPrefix = 1
