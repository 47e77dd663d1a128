# Everything a person needs to do with this tree. `make run` and `make test` need nothing but Go.

GO      ?= go
BIN     := bin/grapnel
VERSION := $(shell git describe --tags --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X github.com/grapnelhq/grapnel.Version=$(VERSION))
LINT    := $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

# Modules inside this one: oracles and tools whose dependencies have no place in the binary.
NESTED  := $(shell find . -mindepth 2 -name go.mod -not -path './tools/*' -not -path '*/testdata/*' -exec dirname {} \;)

.PHONY: help run build test soak bench lint compiler clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' Makefile

run: build ## Build, and start the server with something to look at
	@exec $(BIN) dev

build: ## Build the static binary, bin/grapnel
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/grapnel

test: compiler ## Run every test, under the race detector
	$(GO) vet ./...
	$(GO) test -count=1 .
	CGO_ENABLED=1 $(GO) test -race -timeout 14m ./...
	@set -e; for dir in $(NESTED); do \
		echo "cd $$dir && $(GO) vet ./... && $(GO) test -race ./..."; \
		(cd $$dir && $(GO) vet ./... && CGO_ENABLED=1 $(GO) test -race -timeout 5m ./...); \
	done

soak: compiler ## Run the long forms of the tests: hours of seeds and kills
	GRAPNEL_SOAK=1 $(GO) test -count=1 -timeout 0 ./internal/sim/... ./internal/store/... ./e2e/...

bench: ## Measure, beside a relay that stores nothing
	$(GO) run ./bench

lint: ## Look for what a machine can see
	$(LINT) run ./...

# The race detector needs a C compiler. Go alone builds and runs everything else.
compiler:
	@command -v "$$($(GO) env CC)" >/dev/null 2>&1 && exit 0; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		echo "the race detector needs a C compiler: installing gcc"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev >/dev/null; \
	else \
		echo "the race detector needs a C compiler: install gcc (or clang, and set CC), then run make test again" >&2; exit 1; \
	fi

clean: ## Remove what was built; data stay
	rm -rf bin
