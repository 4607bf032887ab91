#!/usr/bin/env bash
# The trial (ondol verify) of the generated Qwen3-shaped model with the reference flags: all 76 requests, then again with
# a client deadline of one second, which must fail and say why. Reports go to build/home-verify/reports.
#
# An input of 2562 tokens takes about ten seconds here where nothing else runs, so the whole takes about ten minutes.
# Other load makes it longer, until inputs wait past the gate's 120 seconds and the trial fails, rightly.
set -euo pipefail
cd "$(dirname "$0")/.."

export ONDOL_HOME=$PWD/build/home-verify
export ONDOL_LISTEN=${ONDOL_LISTEN:-127.0.0.1:7436}
export ONDOL_PROFILE=reference ONDOL_LANG=en
export ONDOL_MODEL=$PWD/build/deps/models/qwen3-shaped.gguf
ondol=$PWD/build/bin/ondol
reports=$ONDOL_HOME/reports

mkdir -p "$ONDOL_HOME"
set -m # a process group of its own: ^C reaches this script alone, which then stops the app in order
"$ondol" serve >"$ONDOL_HOME/serve.out" 2>&1 </dev/null &
app=$!
set +m
trap 'kill -TERM "$app" 2>/dev/null || true; wait "$app" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for ((i = 0; i < 360; i++)); do
	state=$("$ondol" engine status --json 2>/dev/null | node -pe 'JSON.parse(require("fs").readFileSync(0, "utf8")).state' 2>/dev/null || true)
	[ "$state" != ready ] || break
	kill -0 "$app" 2>/dev/null || {
		tail -n 30 "$ONDOL_HOME/serve.out" >&2
		exit 1
	}
	sleep 0.5
done

printf '\n== ondol verify\n'
"$ondol" verify --out "$reports"

printf '\n== ondol verify --quick --deadline 1s (must fail)\n'
code=0
said=$("$ondol" verify --quick --deadline 1s --out "$reports") || code=$?
printf '%s\n' "$said"
if [ "$code" != 1 ] || ! grep -q 'requests had no answer within 1 s' <<<"$said"; then
	printf 'WRONG: it ended with %s and did not say that requests had no answer within 1 s\n' "$code" >&2
	exit 1
fi
printf '\neverything as it must be\n'
