#!/bin/sh
# Starts this folder's llama-server by its own loader and libraries; the process id stays the same.
# build/setup.sh copies it to build/deps/llama/llama-server. It finds everything from its own place, so that the
# checkout may be moved.
self=$(readlink -f "$0")
here=${self%/*}
for loader in "$here"/tree/usr/lib/*-linux-gnu*/ld-linux-*.so.*; do
	lib=${loader%/*}
done
: "${GGML_BACKEND_PATH:=$lib/ggml/backends0/$(cat "$here/backend")}"
export GGML_BACKEND_PATH
exec "$loader" --argv0 llama-server --library-path "$lib:$lib/llama" "$here/tree/usr/bin/llama-server" "$@"
