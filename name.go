package grapnel

import "encoding/base64"

// MaxNameLength is the length of the longest name of an installation.
const MaxNameLength = 16

// ValidName says whether a text can name an installation: 1 to MaxNameLength of a-z and 0-9.
func ValidName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= MaxNameLength
}

// Named is a prefix of keys and ids with the name of the installation that makes them, so that a
// proxy in front of several finds theirs; without a name the prefix alone.
func Named(prefix, name string) string {
	if name == "" {
		return prefix
	}
	return prefix + "_" + name
}

// KeyText is the text of an API key of an installation.
func KeyText(name string, secret [32]byte) string {
	return Named("grp", name) + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
}
