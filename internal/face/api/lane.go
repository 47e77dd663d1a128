package api

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func laneRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/endpoints/{id}/lanes", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listLanes,
			name: "list-endpoint-lanes", tag: "Endpoints", summary: "List the keys that are stuck at an endpoint",
			about: "A key is stuck if its first delivery has failed at least once or waits for an operator; later deliveries " +
				"are held behind it. Ordered by time of acceptance.",
			query: pageOf(), gives: map[int]any{200: list[wire.Lane]{}}},
		{method: "GET", path: "/v1/lanes", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listAllLanes,
			name: "list-lanes", tag: "Endpoints", summary: "List the keys that are stuck at all endpoints and queues",
			about: "Endpoint by endpoint, each as its own list has them; head.endpoint_id says which. A page may have fewer lanes than limit, or " +
				"none, while next is not null: a request looks at a bounded number of endpoints.",
			query: pageOf(tenantParam), gives: map[int]any{200: list[wire.Lane]{}}},
	}
}

// listAllLanes goes through the endpoints by their ids. A position is an endpoint and the row id of
// a head there. A request looks at LaneEndpoints endpoints at most, since each costs a query.
func listAllLanes(a *api, c *call) (answer, error) {
	limit, tenant := c.query.limit(), c.query.text("tenant")
	from, number, _ := strings.Cut(c.position(), "/")
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	after, err := strconv.ParseInt(cmp.Or(number, "0"), 10, 64)
	if err != nil {
		return answer{}, err // a position of this list's own cursors always has one
	}
	out := list[wire.Lane]{Data: []wire.Lane{}}
	look := a.look(c)
	looked := 0
	for _, ep := range a.Engine.Endpoints(c.scope) {
		if ep.ID < from || tenant != "" && ep.Tenant != tenant {
			continue
		}
		if ep.ID != from {
			after = 0
		}
		if looked++; looked > a.Bounds.LaneEndpoints {
			out.Next = c.cursor(ep.ID + "/0")
			break
		}
		found, err := a.History.StuckLanes(c.Context(), c.scope, store.LaneQuery{Endpoint: ep.ID, After: after, Limit: limit - len(out.Data) + 1})
		if err != nil {
			return answer{}, err
		}
		for i := range found {
			if len(out.Data) == limit {
				out.Next = c.cursor(fmt.Sprintf("%s/%d", ep.ID, after))
				return jsonAnswer(http.StatusOK, out), nil
			}
			lane, err := viewLane(look, &found[i])
			if err != nil {
				return answer{}, err
			}
			out.Data, after = append(out.Data, lane), found[i].Head.Seq
		}
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// viewLane is a lane as its caller sees it.
func viewLane(look *look, l *grapnel.Lane) (wire.Lane, error) {
	head, err := look.view(&l.Head)
	return wire.Lane{Key: l.Key, Since: timeOf(l.Head.Waiting.Anchor), Waiting: l.Waiting,
		WaitingMore: l.Waiting >= store.MaxWaiting, Head: head}, err
}

func listLanes(a *api, c *call) (answer, error) {
	return pages(c, func(after string, most int) ([]grapnel.Lane, error) {
		ep, err := a.endpoint(c)
		if err != nil {
			return nil, err
		}
		return a.History.StuckLanes(c.Context(), c.scope, store.LaneQuery{Endpoint: ep.ID, After: number(after), Limit: most})
	}, func(l *grapnel.Lane) string { return strconv.FormatInt(l.Head.Seq, 10) }, func(found []grapnel.Lane) (_ []wire.Lane, err error) {
		look, all := a.look(c), make([]wire.Lane, len(found))
		for i := 0; i < len(found) && err == nil; i++ {
			all[i], err = viewLane(look, &found[i])
		}
		return all, err
	})
}
