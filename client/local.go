package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Local has a handler in this process answer requests instead of a server elsewhere, into memory:
// as the transport of Options.HTTP it makes a client of the API that Handler is.
type Local struct{ Handler http.Handler }

// RoundTrip returns the handler's answer once it is whole.
func (l Local) RoundTrip(rq *http.Request) (*http.Response, error) {
	in := rq.Clone(rq.Context())
	in.RequestURI = rq.URL.RequestURI()
	if in.RemoteAddr == "" {
		in.RemoteAddr = "127.0.0.1:0"
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &recorder{header: http.Header{}}
	l.Handler.ServeHTTP(w, in)
	if err := rq.Context().Err(); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK) // unless it has answered
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: rq,
	}, nil
}

// recorder is a response in memory. Its status is 0 until something is answered.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the response's.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader keeps the first final status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
