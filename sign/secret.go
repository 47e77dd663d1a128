package sign

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Text forms of keys: a prefix and the standard base64 of the key's bytes.
const (
	SymmetricPrefix = "whsec_" // shared by both sides
	PrivatePrefix   = "whsk_"  // Ed25519; stays with the sender
	PublicPrefix    = "whpk_"  // Ed25519; for receivers
)

// A symmetric secret has 24 to 64 bytes; new ones have 32.
const (
	minSecret = 24
	newSecret = 32
	maxSecret = 64
)

type kind int

const (
	symmetric kind = iota
	private
	public
)

// NewSecret makes a symmetric secret from 32 random bytes.
func NewSecret(random io.Reader) (string, error) {
	var raw [newSecret]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("sign: no randomness for a secret: %w", err)
	}
	return SymmetricPrefix + base64.StdEncoding.EncodeToString(raw[:]), nil
}

// NewPrivateKey makes an Ed25519 signing key; PublicKey derives the key for receivers.
func NewPrivateKey(random io.Reader) (string, error) {
	var seed [ed25519.SeedSize]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return "", fmt.Errorf("sign: no randomness for a key: %w", err)
	}
	return PrivatePrefix + base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed[:])), nil
}

// PublicKey returns the public half (whpk_…) of a private key (whsk_…).
func PublicKey(text string) (string, error) {
	kind, raw, err := decode(text)
	if err != nil {
		return "", err
	}
	if kind != private {
		return "", fmt.Errorf("sign: only a private key (%s) has a public half", PrivatePrefix)
	}
	half := ed25519.PrivateKey(raw).Public().(ed25519.PublicKey)
	return PublicPrefix + base64.StdEncoding.EncodeToString(half), nil
}

// decode reads any key. Its errors never contain the text: a text that looks like a typing error is
// mostly a secret.
func decode(text string) (kind, []byte, error) {
	if encoded, ok := strings.CutPrefix(text, SymmetricPrefix); ok {
		raw, err := decodeBase64(encoded, maxSecret)
		if err == nil && (len(raw) < minSecret || len(raw) > maxSecret) {
			err = fmt.Errorf("sign: a secret (%s) has %d to %d bytes, this one has %d", SymmetricPrefix, minSecret, maxSecret, len(raw))
		}
		return symmetric, raw, err
	}
	if encoded, ok := strings.CutPrefix(text, PrivatePrefix); ok {
		raw, err := decodeBase64(encoded, ed25519.PrivateKeySize)
		if err != nil {
			return private, nil, err
		}
		return decodePrivate(raw)
	}
	if encoded, ok := strings.CutPrefix(text, PublicPrefix); ok {
		raw, err := decodeBase64(encoded, ed25519.PublicKeySize)
		if err == nil && len(raw) != ed25519.PublicKeySize {
			err = fmt.Errorf("sign: a public key (%s) has %d bytes, this one has %d", PublicPrefix, ed25519.PublicKeySize, len(raw))
		}
		return public, raw, err
	}
	return 0, nil, fmt.Errorf("sign: a key starts with %s, %s or %s", SymmetricPrefix, PrivatePrefix, PublicPrefix)
}

// decodePrivate accepts a seed, or a seed followed by its public half. The half is checked, because
// a half of another key would make signatures that leak the private key.
func decodePrivate(raw []byte) (kind, []byte, error) {
	if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return private, nil, fmt.Errorf("sign: a private key (%s) has %d or %d bytes, this one has %d",
			PrivatePrefix, ed25519.SeedSize, ed25519.PrivateKeySize, len(raw))
	}
	key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if len(raw) == ed25519.PrivateKeySize && string(raw) != string(key) {
		return private, nil, errors.New("sign: the two halves of the private key do not belong together")
	}
	return private, key, nil
}

func decodeBase64(encoded string, most int) ([]byte, error) {
	if len(encoded) > base64.StdEncoding.EncodedLen(most) {
		return nil, fmt.Errorf("sign: the key is longer than %d bytes", most)
	}
	if strings.ContainsAny(encoded, "\r\n") { // which the decoder would skip
		return nil, errors.New("sign: the key is not standard base64")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, errors.New("sign: the key is not standard base64")
	}
	return raw, nil
}
