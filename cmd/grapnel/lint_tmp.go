package main

import "github.com/spf13/cobra"

func (s *session) policiesLint() *cobra.Command { return &cobra.Command{Use: "lint"} }
