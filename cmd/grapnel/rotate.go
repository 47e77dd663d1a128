package main

import "github.com/spf13/cobra"

func (s *session) rotateCommand() *cobra.Command {
	return group("rotate", "Replace secrets of the server", s.rotateSessions())
}

func (s *session) rotateSessions() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "sessions", Short: "End all sessions and portal links of all tenants",
		Long: "End all sessions and portal links of all tenants, on all nodes. People sign in again, and portal links are created " +
			"again. API keys, and ids of deliveries and events, stay as they are.",
		Example: "grapnel rotate sessions --reason 'a cookie was stolen'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := s.reader()
			if err == nil {
				err = s.ConfirmAtTerminal("End all sessions and portal links?")
			}
			if err != nil {
				return err
			}
			return r.RotateSessions(cmd.Context(), reason)
		},
	}
	reasoned(c, &reason)
	s.confirmed(c)
	return c
}
