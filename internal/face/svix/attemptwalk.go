package svix

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// cutMark stands between the parts of an iterator of attempts.
const cutMark = "."

// listByEndpoint lists the attempts of the newest messages first. Deliveries are read one by one,
// so that a page can end anywhere: its iterator is the last delivery, the number of its last
// attempt, and the cursor behind the delivery.
func listByEndpoint(a *ask) (reply, error) {
	limit, err := a.limit()
	if err != nil {
		return reply{}, err
	}
	iterator, err := a.forward()
	if err != nil {
		return reply{}, err
	}
	picked, err := a.picked()
	if err != nil {
		return reply{}, err
	}
	q, err := a.narrowed()
	if err != nil {
		return reply{}, err
	}
	ep, err := a.named()
	if err != nil {
		return reply{}, err
	}
	w := attemptWalk{ask: a, picked: picked, limit: limit, address: ep.URL, content: a.truth("with_content", true),
		msg: a.truth("with_msg", false), chosen: a.chosen(), query: q, path: at("/v1/endpoints", ep.ID, "deliveries")}
	out, err := w.from(iterator)
	return reply{http.StatusOK, out}, err
}

// attemptWalk goes through the deliveries of an endpoint.
type attemptWalk struct {
	*ask
	picked       func(*attemptOut) bool
	chosen       func(string, map[string]string) bool
	limit        int
	address      string
	content, msg bool
	path         string
	query        url.Values
	out          page[attemptOut]
}

func (w *attemptWalk) from(iterator string) (page[attemptOut], error) {
	w.out.Data = []attemptOut{}
	cursor := ""
	if iterator != "" {
		parts := strings.SplitN(iterator, cutMark, 3)
		if len(parts) != 3 || !grapnel.ValidID(parts[0]) {
			return w.out, invalid("must be the iterator of an answer to the same request", "query", "iterator")
		}
		last, _ := strconv.Atoi(parts[1])
		cursor = parts[2]
		if full, err := w.add(parts[0], last, cursor); full || err != nil {
			return w.out, err
		}
		if cursor == "" {
			w.out.Done = true
			return w.out, nil
		}
	}
	for {
		var is part[wire.Delivery]
		if cursor != "" {
			w.query.Set("cursor", cursor)
		}
		w.query.Set("limit", "1")
		if err := w.read(w.path, w.query, &is); err != nil {
			return w.out, err
		}
		cursor = ""
		if is.Next != nil {
			cursor = *is.Next
		}
		for i := range is.Data {
			if is.Data[i].AttemptsMade == 0 {
				continue
			}
			if full, err := w.add(is.Data[i].ID, 0, cursor); full || err != nil {
				return w.out, err
			}
		}
		switch {
		case cursor == "":
			w.out.Done = true
			return w.out, nil
		case w.spent() && len(is.Data) > 0:
			w.out.Iterator = new(is.Data[0].ID + cutMark + "1" + cutMark + cursor)
			return w.out, nil
		}
	}
}

// add adds the attempts of a delivery, the newest first; of those below last, unless that is 0. It
// returns true once the page is full.
func (w *attemptWalk) add(id string, last int, cursor string) (bool, error) {
	d, err := w.delivery(id)
	if missing(err) {
		return false, nil // purged meanwhile
	}
	if err != nil {
		return false, err
	}
	var about *messageOut
	if q := w.URL.Query(); w.msg || q.Get("channel") != "" || q.Get("tag") != "" || len(w.listed("event_types")) > 1 {
		ev, err := w.event(d.EventID)
		if missing(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !w.chosen(ev.Type, ev.Metadata) {
			return false, nil
		}
		if w.msg {
			about = new(viewEvent(ev, w.content))
		}
	}
	for _, at := range slices.Backward(d.Attempts) {
		v := viewAttempt(d, &at, w.address, w.content)
		v.Msg = about
		if last > 0 && at.Number >= last || !w.picked(&v) {
			continue
		}
		w.out.Data = append(w.out.Data, v)
		w.out.Iterator = new(d.ID + cutMark + strconv.Itoa(at.Number) + cutMark + cursor)
		if len(w.out.Data) == w.limit {
			w.out.Done = cursor == "" && at.Number <= 1
			return true, nil
		}
	}
	return false, nil
}
