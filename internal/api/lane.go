package api

import (
	"net/http"
	"strconv"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func laneRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/endpoints/{id}/lanes", scope: grapnel.ScopeRead, handle: listLanes,
			name: "list-endpoint-lanes", tag: "Endpoints", summary: "List the keys that are stuck at an endpoint",
			about: "A key is stuck if its first delivery has failed at least once or waits for an operator; later deliveries " +
				"are held behind it. Ordered by time of acceptance.",
			query: pageOf(), gives: map[int]any{200: list[wire.Lane]{}}},
	}
}

func listLanes(a *api, c *call) (answer, error) {
	limit, after := c.query.limit(), c.number()
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	ep, err := a.endpoint(c)
	if err != nil {
		return answer{}, err
	}
	found, err := a.History.StuckLanes(c.Context(), c.scope, store.LaneQuery{Endpoint: ep.ID, After: after, Limit: limit + 1})
	if err != nil {
		return answer{}, err
	}
	part := page(c, found, limit, func(l *grapnel.Lane) string { return strconv.FormatInt(l.Head.Seq, 10) })
	out := list[wire.Lane]{Data: make([]wire.Lane, len(part.Data)), Next: part.Next}
	look := a.look(c)
	for i := range part.Data {
		l := &part.Data[i]
		head, err := look.view(&l.Head)
		if err != nil {
			return answer{}, err
		}
		out.Data[i] = wire.Lane{Key: l.Key, Since: timeOf(l.Head.Waiting.Anchor), Waiting: l.Waiting,
			WaitingMore: l.Waiting >= store.MaxWaiting, Head: head}
	}
	return jsonAnswer(http.StatusOK, out), nil
}
