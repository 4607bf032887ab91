#!/usr/bin/env bash
# Runs every fuzz target of the repository for a while, one after the other: fuzz.sh DURATION TAGS.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(grep -rlE --include='*_test.go' '^func Fuzz' app internal build/tools || true)
[ -n "$files" ] || { echo "fuzz: there is no fuzz target"; exit 0; }
while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "fuzz: ./$(dirname "$file") $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" -tags "$2" "./$(dirname "$file")"
	done
done <<<"$files"
