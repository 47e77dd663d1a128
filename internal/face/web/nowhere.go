package web

import "net/http"

// beyond hands a request that is for no page to the API. A browser that asks for an address that is
// nowhere gets a page with a way back in place of JSON.
func (w *web) beyond(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !wants(r, "text/html") {
		w.API.ServeHTTP(rw, r)
		return
	}
	found := &seeker{ResponseWriter: rw}
	if w.API.ServeHTTP(found, r); found.nowhere {
		rw.Header().Del("Content-Length")
		w.handler((*visit).nowhere)(rw, r)
	}
}

// nowhere answers with the page for addresses that are nowhere.
func (v *visit) nowhere() error {
	return refused(http.StatusNotFound, "There is no page at this address.", "Check the address, or go on from the first page.")
}

// seeker passes an answer on, unless it is that nothing was found.
type seeker struct {
	http.ResponseWriter
	nowhere bool
}

// Unwrap is for http.ResponseController.
func (s *seeker) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader drops the status 404.
func (s *seeker) WriteHeader(status int) {
	if s.nowhere = status == http.StatusNotFound; !s.nowhere {
		s.ResponseWriter.WriteHeader(status)
	}
}

func (s *seeker) Write(p []byte) (int, error) {
	if s.nowhere {
		return len(p), nil
	}
	return s.ResponseWriter.Write(p)
}
