package oidc

import (
	"crypto"
	"encoding/base64"
	"strings"
	"testing"

	goidc "github.com/coreos/go-oidc/v3/oidc"
)

// TestVectorsOfTheStandards: signatures from RFC 7515 (A.2, A.3) and RFC 8037 (A.4) verify, and do
// not after a bit of them or of the text has changed.
func TestVectorsOfTheStandards(t *testing.T) {
	const claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	for name, test := range map[string]struct {
		key   map[string]any
		token string
	}{
		"RS256": {
			map[string]any{"kty": "RSA", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yR" +
				"T-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdV" +
				"MTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ", "e": "AQAB"},
			"eyJhbGciOiJSUzI1NiJ9." + claims + ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5ju" +
				"jGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzD" +
				"wusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
		},
		"ES256": {
			map[string]any{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
			"eyJhbGciOiJFUzI1NiJ9." + claims + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
		},
		"EdDSA": {
			map[string]any{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
			"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
		},
	} {
		k, ok := readKey(asJSON(test.key))
		if !ok || k.Algorithm != name {
			t.Fatalf("%s: the key is not usable", name)
		}
		keys := goidc.StaticKeySet{PublicKeys: []crypto.PublicKey{k.Key}}
		at := strings.LastIndex(test.token, ".")
		text := test.token[:at]
		signature, err := base64.RawURLEncoding.DecodeString(test.token[at+1:])
		if err != nil {
			t.Fatal(err)
		}
		signed := func(text string, signature []byte) bool {
			_, err := keys.VerifySignature(t.Context(), text+"."+b64(signature))
			return err == nil
		}
		if !signed(text, signature) {
			t.Errorf("%s: the signature of the standard is refused", name)
		}
		if signed(text+"x", signature) || signed(text, signature[1:]) || signed(text, append([]byte{0}, signature...)) {
			t.Errorf("%s: another text or signature is accepted", name)
		}
		for bit := range len(signature) * 8 {
			signature[bit/8] ^= 1 << (bit % 8)
			if bit%7 == 0 && signed(text, signature) {
				t.Errorf("%s: bit %d may be another", name, bit)
			}
			signature[bit/8] ^= 1 << (bit % 8)
		}
	}
}
