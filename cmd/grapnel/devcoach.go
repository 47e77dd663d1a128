package main

import (
	"sync/atomic"

	"github.com/grapnelhq/grapnel/internal/proof/demo"
	"github.com/grapnelhq/grapnel/internal/server"
)

// coach shows the demo's story on the dashboard. It is handed to the server before the story
// exists, and has no steps until then.
type coach struct {
	receivers *demo.Receivers
	program   string

	begun atomic.Pointer[begun]
}

// begun is a story that has begun.
type begun struct {
	story   *demo.Story
	keyFile string
}

// Scene is the story as it is.
func (c *coach) Scene() server.Scene {
	is := c.begun.Load()
	if is == nil {
		return server.Scene{}
	}
	scene := server.Scene{Fixed: c.receivers.Fixed(), Refuser: c.receivers.Endpoint(demo.Ledger), KeyFile: is.keyFile, Program: c.program}
	for _, s := range is.story.Steps() {
		scene.Steps = append(scene.Steps, server.Step{Title: s.Title, Detail: s.Detail, Done: s.Done})
		scene.Asked = scene.Asked || !s.Done && s.Detail != "" // only a step that needs the viewer says something before it is done
	}
	return scene
}

// Fix repairs the ledger.
func (c *coach) Fix() { c.receivers.Fix() }
