package cells

import (
	"bytes"
	"io"
	"net/http"
)

// kept is a request body that may have to be sent again. The bytes that have been read are stored,
// at most `most` of them.
type kept struct {
	from io.Reader
	most int // bytes that are stored; a longer body cannot be sent again
	read bytes.Buffer
	lost bool
}

// again is the request with its body from the beginning.
func (k *kept) again(rq *http.Request) *http.Request {
	same := *rq
	if rq.Body != nil && rq.Body != http.NoBody {
		same.Body = io.NopCloser(io.MultiReader(bytes.NewReader(k.read.Bytes()), k))
	}
	return &same
}

// Read reads on after the stored bytes.
func (k *kept) Read(b []byte) (int, error) {
	n, err := k.from.Read(b)
	if k.lost = k.lost || k.read.Len()+n > k.most; k.lost {
		k.read = bytes.Buffer{}
		return n, err
	}
	k.read.Write(b[:n])
	return n, err
}
