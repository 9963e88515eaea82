# make          lists the targets
# make test     installs what the tests need, then runs all of them in small
# make check    everything that CI runs: the same tests, with coverage and with the race detector, linters, servers
# make nightly  what is too long for each change: all tests at full size, all servers

GO          ?= go
TIMEOUT     ?= 40m
TESTFLAGS   ?=
FUZZTIME    ?= 30s
COVERMIN    ?= 97
STRESSCOUNT ?= 20
BENCHFLAGS  ?=
PEERSFLAGS  ?=

MODULE    := github.com/seed6c881748/redlock
GOLANGCI  := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PLATFORMS := windows/amd64 linux/386 darwin/arm64
BUILD     := build

# What the library may depend on, besides the standard library and itself.
DEPS := github.com/gomodule/redigo golang.org/x/sync

# The modules below this one (bench, ...), which ./... does not reach.
NESTED := $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path './.*' -not -path '*/testdata/*'))

# Modules that nobody imports or installs. Their lint, like the last platform, is for make nightly: compiling what they depend
# on takes longer than a change should wait.
INTERNAL := bench compat proof test/repository/publish

# What make check does besides make cover, one after the other: each has as much at a time as there are cores.
CHECKS := test-race fmt-check vet lint matrix-short tidy-check deps-check cross nested snippets api-diff bench-smoke quickstart mutants-short

# As many heavy processes run at a time: compilers, test binaries, linters. The go command has as many by itself, so where
# several of it run at a time, each has one; proof/mutants sees to that itself.
CORES   ?= $(shell getconf _NPROCESSORS_ONLN)
ONE_JOB := $(strip $(shell $(GO) env GOFLAGS) -p=1)
nested: export GOFLAGS = $(ONE_JOB)

# The oldest Go that users may have, as its last patch: with the first ones, a bubble of
# testing/synctest could hang the garbage collector (golang/go#75134).
OLDEST := go1.25.14

# Says at the end what failed, how many tests ran, how long they took, and which were the slowest.
# It has a go.mod of its own: users get that of the library. GOTESTSUM_FORMAT=testname shows each test.
GOTESTSUM := $(GO) tool -modfile=scripts/gotestsum.mod gotestsum
TESTRUN   := $(GOTESTSUM) --format-hide-empty-pkg --hide-summary skipped --jsonfile-timing-events $(BUILD)/tests.json \
	--post-run-command '$(GOTESTSUM) tool slowest --num 10 --jsonfile $(BUILD)/tests.json' --

# Tests that wait, for real servers, run beside others that compute.
PARALLEL ?= 4

# The longest packages first: others are compiled while they run.
PACKAGES := ./redlock ./test/... ./...

# Nearly all nodes of the tests are in memory and make much garbage, and so do linters.
test test-race race sim cover full matrix-short nested snippets lint fmt-check mutants mutants-short: export GOGC = 400

# More than the default numbers, which make full runs.
sim: export SIM_SEEDS ?= long

# The tests of a package run in its own folder.
ifneq (,$(findstring /,$(REDIS_SERVER)))
override REDIS_SERVER := $(abspath $(REDIS_SERVER))
export REDIS_SERVER
endif

# A go.work, as make work writes it for editors, is not for tests: users have no such thing.
export GOWORK = off

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## compile all packages
	$(GO) build ./...

# Without the race detector: it would take twice as long, and need a C compiler.
# go vet has a target of its own. What debuggers need is left out: to link it takes an eighth of the processor time.
.PHONY: test
test: tools ## all tests in small (-short), after installing what they need
	$(TESTRUN) -short -vet=off -ldflags='-s -w' -parallel $(PARALLEL) -timeout $(TIMEOUT) $(TESTFLAGS) $(PACKAGES)

.PHONY: test-race
# Those of the documents start other programs, which are not built with it.
test-race: tools-race ## all tests in small, with the race detector
	CGO_ENABLED=1 $(TESTRUN) -race -short -vet=off -parallel $(PARALLEL) -timeout $(TIMEOUT) $(TESTFLAGS) \
		./redlock $$($(GO) list ./test/... ./... | grep -v /test/repository)

.PHONY: race
race: tools-race ## all tests at full size, with the race detector
	CGO_ENABLED=1 $(TESTRUN) -race -parallel $(PARALLEL) -timeout $(TIMEOUT) $(TESTFLAGS) $(PACKAGES)

.PHONY: tools
tools: ## install what the tests need: redis-server, bash, ps (REDIS_SERVER=path: not that)
	@GO='$(GO)' sh scripts/tools.sh

.PHONY: tools-race
tools-race: ## the same, and a C compiler for the race detector
	@GO='$(GO)' sh scripts/tools.sh race

# Both run all of them even when one fails, and print what each has taken: wall and processor time, load.
.PHONY: check
check: ## everything that CI runs
	@bash scripts/steps.sh cover $(CHECKS)

.PHONY: check-rest
check-rest: ## everything that CI runs but make cover
	@bash scripts/steps.sh $(CHECKS)

# The numbers of seeds, rounds and servers that make check leaves out.
.PHONY: nightly
nightly: full race oldest matrix lint-internal cross-all mutants proved soak world-full quorum-full fleet fuzz packages-test ## all tests at full size, all servers, all mutants, packages

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

# golangci-lint needs Go 1.26. Where an older Go may not fetch a newer toolchain,
# the checks that need it are left out; CI has a run with a newer Go, too.
OLD_GO := case "$$($(GO) env GOVERSION):$$($(GO) env GOTOOLCHAIN)" in \
	*:auto | *+auto) ;; \
	go1.25*) echo "skipped: golangci-lint needs Go 1.26"; exit 0 ;; esac

.PHONY: lint
lint: ## golangci-lint, in the modules that people use
	@$(OLD_GO); set -e; for m in $(or $(LINTED),. $(filter-out $(INTERNAL),$(NESTED))); do \
		echo "golangci-lint run: $$m"; \
		(cd "$$m" && $(GOLANGCI) run --allow-parallel-runners --config '$(CURDIR)/.golangci.yml'); \
	done

.PHONY: lint-internal
lint-internal: LINTED = $(INTERNAL)
lint-internal: lint ## golangci-lint, in the others

.PHONY: fmt
fmt: ## format the Go files of all modules
	$(GOLANGCI) fmt

.PHONY: fmt-check
fmt-check: ## fail if make fmt would change something
	@$(OLD_GO); echo "golangci-lint fmt --diff"; $(GOLANGCI) fmt --diff

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change something
	@set -e; for m in . $(NESTED); do \
		echo "go mod tidy -diff: $$m"; \
		(cd "$$m" && $(GO) mod tidy -diff); \
	done

.PHONY: deps-check
deps-check: ## fail if the library, but for redlocktest, depends on what users should not get
	@set -e; deps=$$($(GO) list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' \
		$$($(GO) list ./redlock/... | grep -v /redlocktest)); \
	bad=$$(echo "$$deps" | awk -v allowed='$(DEPS) $(MODULE)' -v never='$(MODULE)/internal/testcluster' ' \
		function under(p, root) { return p == root || index(p, root "/") == 1 } \
		BEGIN { n = split(allowed, a, " ") } \
		{ ok = 0; for (i = 1; i <= n; i++) if (under($$0, a[i])) ok = 1; \
		  if (!ok || under($$0, never)) print }'); \
	if [ -n "$$bad" ]; then \
		echo "deps-check: the library must not depend on:"; echo "$$bad"; exit 1; \
	fi; \
	echo "deps-check: ok:"; echo "$$deps"

# Nothing is run, so nothing need be optimised, which would take a third longer.
.PHONY: cross
cross: ## compile for other platforms: Windows, and one with 32 bits
	@set -e; for p in $(or $(PLATFORM),$(wordlist 1,2,$(PLATFORMS))); do \
		echo "go build: $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -gcflags='all=-N -l' ./...; \
	done

.PHONY: cross-all
cross-all: PLATFORM = $(PLATFORMS)
cross-all: cross ## compile for all other platforms

# The tests of these take longest, so they begin first.
LONG := proof otelredlock test/repository/publish cmd/redlock

.PHONY: nested
nested: tools promtool ## short tests of the nested modules, CORES at a time; make lint has go vet
	@printf '%s\n' $(LONG) $(filter-out $(LONG),$(NESTED)) | xargs -n 1 -P $(CORES) sh -c \
		'out=$$(cd "$$0" && $(GO) test -short -vet=off -parallel $(PARALLEL) -timeout $(TIMEOUT) $(TESTFLAGS) ./... 2>&1); code=$$?; \
		echo "go test -short: $$0"; echo "$$out"; [ $$code = 0 ] || { echo "$$out" | grep -A 3 -E "^ *--- FAIL|^panic: "; echo "FAILED: $$0"; exit 1; }'

# The alert rules are tried with it.
.PHONY: promtool
promtool: ## unpack Prometheus
	@sh scripts/promtool.sh

.PHONY: examples
examples: quickstart ## the examples' tests, and the quickstart
	$(GO) test -timeout $(TIMEOUT) $(TESTFLAGS) ./examples/...

.PHONY: quickstart
quickstart: ## run the quickstart
	$(GO) run ./examples/quickstart

# Nothing runs this one: it is for those who have Docker.
COMPOSE := docker compose -f examples/quickstart/compose.yaml

.PHONY: quickstart-docker
quickstart-docker: ## the quickstart on three real servers, in containers
	$(COMPOSE) up -d --wait
	REDLOCK_NODES=127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 $(GO) run ./examples/quickstart; \
	status=$$?; $(COMPOSE) down --volumes; exit $$status

.PHONY: api
api: ## write down what the packages export, after a change of it that is meant
	$(GO) test -timeout $(TIMEOUT) ./test/repository -run TestAPI -update

.PHONY: lua
lua: ## write docs/generated/scripts, the scripts with quarantine, after a change of one that is meant
	$(GO) test -timeout $(TIMEOUT) ./redlock -run TestScriptsThatAreComposed -update-scripts

.PHONY: snippets
snippets: ## compile and run the Go of the READMEs and docs/, check their links and lines
	$(GO) test -count=1 -timeout $(TIMEOUT) ./test/repository

.PHONY: sim
sim: ## a short simulation, and the searches over the rules of a node and of rounds
	@mkdir -p $(BUILD)
	$(TESTRUN) -timeout $(TIMEOUT) $(TESTFLAGS) ./test/simulation
	$(TESTRUN) -timeout $(TIMEOUT) $(TESTFLAGS) -run "World|Quorum" ./test/world ./test/quorum

.PHONY: world-full
world-full: ## the search over the rules of a node, in its largest settings
	WORLD=full WORLD_WALKS=1000000 $(TESTRUN) -timeout $(TIMEOUT) -run World ./test/world

.PHONY: quorum-full
quorum-full: ## the search over the rules of rounds, in its largest settings
	QUORUM=full QUORUM_WALKS=20000 $(TESTRUN) -timeout $(TIMEOUT) -run Quorum ./test/quorum

.PHONY: mutants
mutants: tools promtool ## break the code in each way that a test must notice (RUN=fixes/: those named so); fails if one is not noticed
	@mkdir -p $(BUILD)
	cd proof && PATH="$(CURDIR)/$(BUILD)/prometheus:$$PATH" $(GO) run ./mutants $(if $(RUN),-run '$(RUN)')

.PHONY: mutants-short
mutants-short: tools ## the same with a part of them
	@mkdir -p $(BUILD)
	cd proof && $(GO) run ./mutants -subset

# The coverage of the library's packages, by all tests. It needs no more than the small ones. They run with the
# oldest Go, as those with the race detector run with this one. Where that Go cannot be had, this says so and
# takes this one, and fails if CI=true. The code in documents needs all modules compiled, which one Go is enough for.
.PHONY: cover
cover: ## make test with the oldest Go that go.mod allows, and the coverage of the library; fails below COVERMIN %
	@mkdir -p $(BUILD)
	@if GOTOOLCHAIN=$(OLDEST) $(GO) version; then export GOTOOLCHAIN=$(OLDEST); \
	else echo "$(OLDEST) is not here: $$($(GO) version)"; [ "$$CI" != true ] || exit 1; fi; \
	$(MAKE) --no-print-directory test \
		TESTFLAGS="$(TESTFLAGS) -skip TestSnippets -coverprofile=$(BUILD)/all.out -coverpkg=./redlock/...,./internal/..."
	@grep -v /internal/test $(BUILD)/all.out >$(BUILD)/cover.out
	@$(GO) tool cover -func=$(BUILD)/cover.out | awk -v min=$(COVERMIN) ' \
		/^total:/ { sub("%", "", $$3); seen = 1; \
		  printf "coverage of the library: %s %% (at least %s)\n", $$3, min; if ($$3 + 0 < min + 0) exit 1 } \
		END { if (!seen) exit 1 }'

.PHONY: full
full: tools ## all tests at full size, without the race detector
	$(TESTRUN) -vet=off -parallel $(PARALLEL) -timeout $(TIMEOUT) $(TESTFLAGS) $(PACKAGES)

.PHONY: oldest
oldest: ## the integrations compile with the oldest Go that go.mod allows; make cover tests the library with it
	@if ! GOTOOLCHAIN=$(OLDEST) $(GO) version; then \
		echo "skipped: $(OLDEST) is not here"; [ "$$CI" != true ]; exit; fi; set -ex; \
	for m in $(filter integrations/%,$(NESTED)); do (cd "$$m" && GOTOOLCHAIN=$(OLDEST) $(GO) vet ./...); done

.PHONY: fuzz
fuzz: ## every fuzz target of the library, FUZZTIME each
	@set -e; for p in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); do \
		for f in $$($(GO) test -list '^Fuzz' ./$$p | grep '^Fuzz'); do \
			echo "fuzz: $$p: $$f"; \
			$(GO) test -timeout $(TIMEOUT) -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) ./$$p; \
		done; \
	done

.PHONY: stress
stress: TIMEOUT = 60m
stress: ## the short tests STRESSCOUNT times in a row
	$(GO) test -short -count=$(STRESSCOUNT) -failfast -timeout $(TIMEOUT) ./...

.PHONY: fleet
fleet: tools ## clients and modules of two versions of the library together: this one and OLD=tag-or-commit
	$(GO) test -v -count=1 -timeout $(TIMEOUT) ./test/fleet

.PHONY: matrix
matrix: tools ## the tests with servers on the system's and newer ones, or on REDIS_SERVERS="path1 path2"
	GO='$(GO)' CORES=$(CORES) TIMEOUT=$(TIMEOUT) sh scripts/matrix.sh $(abspath $(REDIS_SERVERS))

.PHONY: matrix-short
matrix-short: tools ## the same in small, on the newest servers only
	GO='$(GO)' CORES=$(CORES) TIMEOUT=$(TIMEOUT) sh scripts/matrix.sh -short

# How long make chaos takes, in the words of Go: 2h, 5m.
TIME ?= 5m

.PHONY: soak
soak: COURSE = soak
soak: OUT = $(BUILD)/soak
soak: chaos ## make chaos COURSE=soak: busy clients over servers that fail mildly: does anything grow?

# The schedule follows from SEED alone. COURSE=network has some of the faults only; go run ./chaos -help lists them.
SEED ?= 1
OUT  ?= $(BUILD)/chaos

.PHONY: chaos
chaos: tools ## several clients on real servers under faults for TIME=5m, drawn from SEED=1, and judged. Writes OUT=build/chaos
	@echo 'chaos: TIME=$(TIME) of faults, then the verdict; compiling comes first, up to two minutes with an empty cache'
	cd proof && $(GO) run ./chaos -time $(TIME) -seed $(SEED) -out '$(if $(filter /%,$(OUT)),$(OUT),$(CURDIR)/$(OUT))' \
		$(if $(COURSE),-course $(COURSE))

# Many short runs see more than a long one: each has other numbers of nodes and clients, and other settings.
RUNS ?= 16

.PHONY: chaos-fresh
chaos-fresh: tools ## make chaos RUNS=16 times, with seeds that no run has had, of COURSE; all of them, even if one fails
	@failed=; for run in $$(seq $(RUNS)); do seed=$$(date +%s); \
		$(MAKE) --no-print-directory chaos SEED=$$seed OUT='$(OUT)'/$$seed && says=passed || { says=FAILED; failed="$$failed $$seed"; }; \
		echo "make chaos COURSE=$(COURSE) TIME=$(TIME) SEED=$$seed: $$says" | tee -a "$${GITHUB_STEP_SUMMARY:-/dev/null}"; \
		[ $$says = FAILED ] || rm -rf '$(OUT)'/$$seed; \
	done; [ -z "$$failed" ] || { echo "FAILED: seeds$$failed"; exit 1; }

# Each library has TIME for each of eight groups of faults: with 30s it is 22 minutes.
.PHONY: peers
peers: TIME = 30s
peers: tools ## other libraries and this one under the same faults, TIME=30s each. Writes build/peers
	cd proof && $(GO) run ./peers -time $(TIME) -out '$(CURDIR)/$(BUILD)/peers' $(PEERSFLAGS)

# Each of them can be run by itself, and says what it has shown.
PROOFS := proved sim mutants-short chaos peers

.PHONY: prove
prove: TIME = 3m
prove: ## what shows that promises are kept, all one after the other: PROOFS, with TIME=3m of chaos. Fails if one has
	@failed=; for proof in $(PROOFS); do time=$(TIME); [ $$proof = chaos ] || time=3s; \
		echo "==== make $$proof"; $(MAKE) --no-print-directory $$proof TIME=$$time || failed="$$failed $$proof"; \
	done; [ -z "$$failed" ] || { echo "FAILED:$$failed"; exit 1; }

.PHONY: proved
proved: ## Coq checks the argument of docs/safety.md: prints each theorem, and each rule broken with the theorem that falls
	@command -v coqc >/dev/null || { echo 'proved: install Coq: apt-get install --no-install-recommends coq'; exit 1; }
	@cd proof && bash -o pipefail -c '$(GO) test -v -vet=off -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./coq | grep -vE "^ *(===|--- PASS)"'

# It takes minutes to compile, so what needs it runs at night.
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0

.PHONY: packages-tools
packages-tools: ## install in build/bin what the packages are made with
	GOBIN='$(CURDIR)/$(BUILD)/bin' $(GO) install $(GORELEASER)
	$(GO) build -modfile=scripts/sbom.mod -o $(BUILD)/bin/ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

.PHONY: packages
packages: packages-tools ## archives, .deb, .rpm, checksums and SBOMs of the tool, as a snapshot. Writes build/dist
	PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" goreleaser release --snapshot --clean

.PHONY: packages-test
packages-test: tools-packages ## make packages, and install, use and remove the .deb; a release with its packages
	cd test/repository/publish && $(GO) test -v -count=1 -timeout $(TIMEOUT) -run 'Package|ARelease$$' .

.PHONY: tools-packages
tools-packages: tools
	@GO='$(GO)' sh scripts/tools.sh packages

# It asks the database of vulnerabilities for what the modules call, so it needs that site, as few networks of CI have it.
.PHONY: vuln
vuln: ## known vulnerabilities of what the modules that people use call
	@set -e; for m in . $(filter-out $(INTERNAL),$(NESTED)); do \
		echo "govulncheck: $$m"; \
		$(GO) -C "$$m" run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...; \
	done

.PHONY: api-diff
api-diff: ## what breaks programs that use the last release, or OLD=tag-or-commit
	@GO='$(GO)' sh scripts/apidiff.sh

.PHONY: work
work: ## write go.work, for editors: all modules in one window
	rm -f go.work go.work.sum
	env -u GOWORK $(GO) work init . $(addprefix ./,$(NESTED))

.PHONY: footprint
footprint: ## write docs/generated/footprint.md: what a program gets with the library
	sh scripts/footprint.sh

.PHONY: bench
bench: tools ## the benchmarks: writes docs/generated/benchmarks.md and its plots; BENCHFLAGS="-parts latency" for some of them
	cd bench && $(GO) run . -write ../docs/generated $(BENCHFLAGS)

.PHONY: bench-smoke
bench-smoke: tools ## every part of the benchmarks as briefly as it can be, to see that it works
	cd bench && $(GO) run . -smoke
