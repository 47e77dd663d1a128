package main

import (
	"sync"

	"github.com/grapnelhq/grapnel/internal/proof/demo"
	"github.com/grapnelhq/grapnel/internal/server"
)

// coach shows the demo's story on the dashboard. It is handed to the server before the story
// exists, and has no steps until then.
type coach struct {
	receivers *demo.Receivers
	program   string

	mu      sync.Mutex
	story   *demo.Story
	keyFile string
}

// begin gives it the story.
func (c *coach) begin(story *demo.Story, keyFile string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.story, c.keyFile = story, keyFile
}

// Scene is the story as it is.
func (c *coach) Scene() server.Scene {
	c.mu.Lock()
	story, keyFile := c.story, c.keyFile
	c.mu.Unlock()
	if story == nil {
		return server.Scene{}
	}
	scene := server.Scene{Fixed: c.receivers.Fixed(), Refuser: c.receivers.Endpoint(demo.Ledger), KeyFile: keyFile, Program: c.program}
	for _, s := range story.Steps() {
		scene.Steps = append(scene.Steps, server.Step{Title: s.Title, Detail: s.Detail, Done: s.Done})
		scene.Asked = scene.Asked || !s.Done && s.Detail != "" // only a step that needs the viewer says something before it is done
	}
	return scene
}

// Fix repairs the ledger.
func (c *coach) Fix() { c.receivers.Fix() }
