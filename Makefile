# Ondol: everything a developer does. `make help` lists it.

GO      ?= go
GOTAGS  := sqlite_fts5
LINT    := $(GO) tool -modfile=build/lint/go.mod staticcheck
FUZZFOR ?= 20s

export CGO_ENABLED = 1

.DEFAULT_GOAL := help
.PHONY: help setup ready build page desktop run test lint bench eval verify fuzz clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r name text; do printf '%-10s %s\n' "$$name" "$$text"; done

setup: ## install what is missing, for the tests too: packages, llama-server, models, Chromium, clients
	@bash build/setup.sh test

ready: ## install what is missing to build and run
	@bash build/setup.sh run

build: ## build the headless program, build/bin/ondol
	$(GO) build -trimpath -tags $(GOTAGS) -o build/bin/ondol .

page: ## build the page of the window, frontend/dist
	cd frontend && npm ci --no-audit --no-fund && npm run build

desktop: page ## build the program with the window, build/bin/ondol-desktop (Debian: needs libgtk-3-dev libwebkit2gtk-4.1-dev)
	$(GO) build -trimpath -tags $(GOTAGS),desktop,production,webkit2_41 -o build/bin/ondol-desktop .

run: ready build ## build, start, index assets/sample and show what it finds (ONCE=1: check and stop)
	@bash build/run.sh

test: setup lint ## lint, then every test with the race detector
	$(GO) test -race -shuffle=on -timeout 30m -tags $(GOTAGS) ./...

lint: ## gofmt, vet (here and for macOS), staticcheck
	@unformatted=$$(find . \( -name node_modules -o -path ./build/deps -o -path './.?*' \) -prune -o -name '*.go' -exec gofmt -l {} +); \
	if [ -n "$$unformatted" ]; then printf 'gofmt -w is due on:\n%s\n' "$$unformatted"; exit 1; fi
	$(GO) vet -tags $(GOTAGS) ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) vet -tags $(GOTAGS) ./internal/...
	$(LINT) -tags $(GOTAGS) ./...
	cd build/conformance/goclient && $(GO) vet ./...

bench: setup build ## run the benchmarks, then measure the built app: latency, load, idle (BENCH="-strict -load": its flags)
	$(GO) test -run '^$$' -bench . -benchmem -tags $(GOTAGS) ./...
	$(GO) run -tags $(GOTAGS) ./build/tools/gatewaybench $(BENCH)
	@if [ -r /proc/self/io ]; then $(GO) run -tags $(GOTAGS) ./build/tools/idlebench; fi

eval: setup build ## measure how well search ranks: our own collection, and Cranfield where it is (EVAL="-v -data FOLDER": its flags)
	$(GO) run -tags $(GOTAGS) ./build/tools/eval $(EVAL)

verify: setup build ## the full trial of the Qwen3-shaped model with the reference flags (ten minutes on a quiet machine)
	@bash build/verify.sh

fuzz: ## fuzz every fuzz target for FUZZFOR (20s) each
	@bash build/fuzz.sh $(FUZZFOR) $(GOTAGS)

clean: ## remove what was built and the state of make run
	rm -rf build/bin build/home build/home-verify

distclean: clean ## also remove what make setup fetched
	rm -rf build/deps
