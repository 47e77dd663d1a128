# Everything a person needs to do with this tree. `make run` and `make test` need nothing but Go.

GO      ?= go
BIN     := bin/grapnel
VERSION := $(shell git describe --tags --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X github.com/grapnelhq/grapnel.Version=$(VERSION))
LINT    := $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

# Modules inside this one: oracles and tools whose dependencies have no place in the binary.
NESTED  := $(shell find . -mindepth 2 -name go.mod -not -path './tools/*' -not -path '*/testdata/*' -exec dirname {} \;)

.PHONY: help run build test soak bench lint needs clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' Makefile

run: build ## Build, and start the server with something to look at
	@exec $(BIN) dev

build: ## Build the static binary, bin/grapnel
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/grapnel

test: needs ## Run every test, under the race detector
	$(GO) vet ./...
	$(GO) test -count=1 .
	CGO_ENABLED=1 $(GO) test -race -timeout 14m $$($(GO) list ./... | grep -v /e2e$$)
	@echo "the real binary, alone: some of its tests compare latencies"
	CGO_ENABLED=1 $(GO) test -race -timeout 10m ./e2e
	@set -e; for dir in $(NESTED); do \
		echo "cd $$dir && $(GO) vet ./... && $(GO) test -race ./..."; \
		(cd $$dir && $(GO) vet ./... && CGO_ENABLED=1 $(GO) test -race -timeout 5m ./...); \
	done

soak: needs ## Run the long forms of the tests: hours of seeds and kills
	GRAPNEL_SOAK=1 $(GO) test -count=1 -timeout 0 ./internal/sim/... ./internal/store/... ./internal/cells/... ./internal/server/... ./e2e/...

bench: ## Measure, beside a relay that stores nothing
	$(GO) run ./bench

lint: ## Look for what a machine can see
	$(LINT) run ./...

# What the tests need besides Go: a C compiler for the race detector, strace and unshare to make disks fail, PostgreSQL (and
# PgBouncer, to stand in front of it) to start one of their own. Building and running need none of them.
needs:
	@missing=; \
	command -v "$$($(GO) env CC)" >/dev/null 2>&1 || missing="$$missing gcc libc6-dev"; \
	command -v strace >/dev/null 2>&1 || missing="$$missing strace"; \
	command -v unshare >/dev/null 2>&1 || missing="$$missing util-linux"; \
	command -v node >/dev/null 2>&1 || missing="$$missing nodejs"; \
	command -v python3 >/dev/null 2>&1 || missing="$$missing python3"; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null 2>&1 || missing="$$missing postgresql"; \
	command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || missing="$$missing pgbouncer"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		echo "the tests need$$missing: installing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; \
	else \
		echo "the tests need$$missing: install them, then run make test again" >&2; exit 1; \
	fi

clean: ## Remove what was built; data stay
	rm -rf bin
