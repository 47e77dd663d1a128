package cells

import (
	"bytes"
	"io"
	"net/http"
)

// kept is the body of a request that may have to be made again. What is read of it is kept, so a request that one cell answers costs no more than
// the memory that its body has anyway.
type kept struct {
	from io.Reader
	most int // bytes that are kept; a body that is longer is not sent again
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

// Read reads on in what has not been read yet.
func (k *kept) Read(b []byte) (int, error) {
	n, err := k.from.Read(b)
	if k.lost = k.lost || k.read.Len()+n > k.most; k.lost {
		k.read = bytes.Buffer{}
		return n, err
	}
	k.read.Write(b[:n])
	return n, err
}
