#!/bin/sh
# Writes what packages have beside the program: completions and the manual page.
set -eu
dir=$1 date=$2
program=$(mktemp)
trap 'rm -f "$program"' EXIT
env -u GOOS -u GOARCH CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w -X main.date=$date" -o "$program" ./cmd/grapnel
rm -rf "$dir"
mkdir -p "$dir/completions" "$dir/man"
"$program" completion bash >"$dir/completions/grapnel.bash"
"$program" completion zsh >"$dir/completions/_grapnel"
"$program" completion fish >"$dir/completions/grapnel.fish"
"$program" completion powershell >"$dir/completions/grapnel.ps1"
"$program" man | gzip -9n >"$dir/man/grapnel.1.gz"
