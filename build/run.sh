#!/usr/bin/env bash
# Starts the built Ondol with a home of its own (build/home), indexes assets/sample, and shows what it does.
#
# ONCE=1 checks the results, stops the app and ends; otherwise it stays until ^C.
# ONDOL_HOME and ONDOL_LISTEN are taken from the environment where they are set. Without settings of its own the app
# finds the engine and the starter model that make setup left in build/deps.
set -euo pipefail
cd "$(dirname "$0")/.."

export ONDOL_HOME=${ONDOL_HOME:-$PWD/build/home}
export ONDOL_LISTEN=${ONDOL_LISTEN:-127.0.0.1:7434}
ondol=$PWD/build/bin/ondol
endpoint=http://$ONDOL_LISTEN
app='' # process id while it runs
wrong=0

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
bad() {
	printf 'WRONG: %s\n' "$*" >&2
	wrong=$((wrong + 1))
}

# from_json EXPRESSION prints a JavaScript expression over j, the JSON on standard input.
from_json() { node -pe 'const j = JSON.parse(require("fs").readFileSync(0, "utf8")); '"$1"; }

# stop ends the app: TERM, ten seconds of patience, KILL.
stop() {
	[ -n "$app" ] || return 0
	kill -TERM "$app" 2>/dev/null || true
	local i
	for ((i = 0; i < 100; i++)); do
		kill -0 "$app" 2>/dev/null || break
		sleep 0.1
	done
	if kill -0 "$app" 2>/dev/null; then
		bad "the app did not stop within ten seconds of TERM"
		kill -KILL "$app" 2>/dev/null || true
	fi
	wait "$app" 2>/dev/null || true
	app=''
}

# port_is_free tries the address as the app will.
port_is_free() {
	node -e '
		const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(process.argv[1]) ?? process.exit(2);
		require("net").createServer().on("error", () => process.exit(1)).listen(Number(port), host, () => process.exit(0));
	' "$ONDOL_LISTEN"
}

start() {
	mkdir -p "$ONDOL_HOME"
	set -m # a process group of its own: ^C reaches this script alone, which then stops the app in order
	"$ondol" serve >"$ONDOL_HOME/serve.out" 2>&1 </dev/null &
	app=$!
	set +m
}

# wait_ready prints every change of the engine's state until it is ready.
wait_ready() {
	local i state='' last=''
	for ((i = 0; i < 360; i++)); do
		if ! kill -0 "$app" 2>/dev/null; then
			tail -n 30 "$ONDOL_HOME/serve.out" >&2
			say "the app ended before it was ready; its output is above, its log in $ONDOL_HOME/logs" >&2
			return 1
		fi
		state=$("$ondol" status --json 2>/dev/null | from_json 'j.engine.state' 2>/dev/null || true)
		if [ -n "$state" ] && [ "$state" != "$last" ]; then
			say "engine: $state"
			last=$state
		fi
		[ "$state" != ready ] || return 0
		sleep 0.5
	done
	"$ondol" engine status >&2 || true
	say "the engine is not ready after three minutes; see: ONDOL_HOME=$ONDOL_HOME build/bin/ondol engine logs" >&2
	return 1
}

# wait_indexed waits until nothing is pending (folders add --wait does so for a new folder).
wait_indexed() {
	local i
	for ((i = 0; i < 240; i++)); do
		[ "$("$ondol" status --json | from_json 'j.index.counts.pending')" != 0 ] || return 0
		sleep 0.5
	done
	bad "documents are still pending after two minutes"
}

# search QUERY FILE TEXT shows the results; the first must be FILE and its snippet hold TEXT (which may be empty).
search() {
	step "search: $1"
	"$ondol" search "$1" --limit 3 || bad "ondol search $1 ended with status $?"
	local verdict
	verdict=$("$ondol" search "$1" --limit 3 --json | FILE=$2 TEXT=$3 from_json '
		const first = j.results?.[0], at = first?.path.normalize("NFC") ?? "nothing";
		!at.endsWith(process.env.FILE) ? `the first result is ${at}, not ${process.env.FILE}`
			: !first.snippet.text.normalize("NFC").includes(process.env.TEXT) ? `the snippet does not hold ${process.env.TEXT}`
			: "ok"') || verdict="no JSON"
	[ "$verdict" = ok ] || bad "search for $1: $verdict"
}

[ -x "$ondol" ] || {
	say "build/bin/ondol is missing; run: make build" >&2
	exit 1
}
port_is_free || {
	say "$ONDOL_LISTEN is taken or no address of this machine; choose another: ONDOL_LISTEN=127.0.0.1:7435 make run" >&2
	exit 1
}

trap 'stop' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step "starting build/bin/ondol serve (home $ONDOL_HOME)"
start
wait_ready

step "engine"
"$ondol" engine status
dimension=$("$ondol" status --json | from_json 'j.engine.model.dimension') || bad "status has no dimension"

step "indexing assets/sample"
sample_folder='const f = j.folders.find((f) => f.path.normalize("NFC").endsWith("assets/sample")); '
if [ "$("$ondol" folders list --json | from_json "$sample_folder f !== undefined")" = true ]; then
	say "watched since an earlier run"
	wait_indexed
else
	"$ondol" folders add assets/sample --wait
fi
"$ondol" folders list
counts=$("$ondol" folders list --json | from_json "$sample_folder"'
	const n = f?.counts ?? {};
	n.found > 0 && n.pending === 0 && n.failed === 0 && n.found === n.indexed + n.skipped ? "ok" : JSON.stringify(n)') || counts="no JSON"
[ "$counts" = ok ] || bad "the folder's counts: $counts"

search "vehicle maintenance" en/automobile-repair.md ""
search "예산" ko/회의록.md "예산안을"

step "POST $endpoint/v1/embeddings"
node build/show-embedding.mjs "$endpoint" "$dimension" || bad "the endpoint's answer"

if [ "${ONCE-}" = 1 ]; then
	step "stopping"
	stop
	[ "$wrong" = 0 ] || {
		say "$wrong of the checks went wrong (WRONG above)" >&2
		exit 1
	}
	say "everything as it must be"
	exit 0
fi

step "ready until ^C"
say "editors, agents, scripts:  base URL $endpoint/v1, any API key"
say "  curl $endpoint/v1/embeddings -H 'content-type: application/json' -d '{\"input\":\"hello\"}'"
say "command line:              ONDOL_HOME=$ONDOL_HOME build/bin/ondol search heart disease doctor"
say "your own folder:           ONDOL_HOME=$ONDOL_HOME build/bin/ondol folders add PATH"
wait "$app" || true
app=''
