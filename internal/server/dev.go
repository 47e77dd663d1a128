package server

import "github.com/grapnelhq/grapnel/internal/face/web"

// What `grapnel dev` adds to the dashboard, for the command, which does not import package web.
type (
	Dev        = web.Dev
	Scene      = web.Scene
	Step       = web.Step
	LoginCodes = web.Codes
)

// NewLoginCodes makes an empty set of one-time codes.
func NewLoginCodes() *LoginCodes { return web.NewCodes() }
