package svix

import (
	"net/http"
	"net/url"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

const recovering = "endpoint.recover"

// viewTask is a replay as a task of Svix.
func viewTask(r *wire.Replay) taskOut {
	status := "running"
	switch r.Status {
	case grapnel.ReplayCompleted:
		status = "finished"
	case grapnel.ReplayCancelled, grapnel.ReplayStopped:
		status = "failed"
	}
	return taskOut{ID: swapped(r.ID, "rpl_", "qtask_"), Task: recovering, Status: status, UpdatedAt: r.UpdatedAt,
		Data: map[string]any{"endpointId": r.EndpointID, "messagesSent": r.Done, "total": r.Total, "delivered": r.Delivered, "failed": r.Failed}}
}

func getTask(a *ask) (reply, error) {
	id := swapped(a.PathValue("task"), "qtask_", "rpl_")
	if !grapnel.ValidID(id) {
		return reply{}, notFound("task")
	}
	var r wire.Replay
	err := a.read(at("/v1/replays", id), nil, &r)
	return reply{http.StatusOK, viewTask(&r)}, err
}

func listTasks(a *ask) (reply, error) {
	out, err := gather(a, "/v1/replays", url.Values{}, func(r *wire.Replay) (*taskOut, error) {
		v := viewTask(r)
		for _, name := range []string{"status", "task"} {
			if want := a.URL.Query().Get(name); want != "" && want != map[string]string{"status": v.Status, "task": v.Task}[name] {
				return nil, nil
			}
		}
		return &v, nil
	})
	return reply{http.StatusOK, out}, err
}
