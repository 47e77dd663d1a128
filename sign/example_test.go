package sign_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// A receiver reads the raw body, verifies it and only then decodes it.
func ExampleVerifier() {
	verifier, err := sign.NewVerifier(sign.VerifierOptions{
		Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		// leave it out outside of an example
		Now: func() time.Time { return time.Unix(1614265335, 0) },
	})
	if err != nil {
		panic(err)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		verified, err := verifier.Verify(r.Header, body)
		if err != nil {
			http.Error(w, "signature", http.StatusUnauthorized)
			return
		}
		fmt.Println("verified", verified.ID) // handle it, unless this id was handled before
		w.WriteHeader(http.StatusNoContent)
	}

	request := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(`{"test": 2432232314}`))
	request.Header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	request.Header.Set("webhook-timestamp", "1614265330")
	request.Header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	answer := httptest.NewRecorder()
	handler(answer, request)
	fmt.Println(answer.Code)
	// Output:
	// verified msg_p5jXN8AQM9LWM0D4loKWxJek
	// 204
}

// During a rotation both secrets sign, so that receivers can change theirs at any moment of the
// overlap.
func ExampleSign() {
	signature, err := sign.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`),
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
	if err != nil {
		panic(err)
	}
	for entry := range strings.FieldsSeq(signature) {
		fmt.Println(entry[:11] + "…")
	}
	// Output:
	// v1,g0hM9SsE…
	// v1,78nXHjpF…
}
