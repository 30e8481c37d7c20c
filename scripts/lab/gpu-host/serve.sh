#!/usr/bin/env bash
# On the GPU machine, after berth.sh: a managed deployment of the model on the rented GPU, from zero, measured through the
# gateway and beside it on the same replica. Usage: serve.sh
source "$(dirname "$0")/lib.sh"
node() { "$LAB/berth/bin/node" "$@"; }
status() { berth serving show "$model" --json; }
is_ready() { [ "$(status | node -e 'process.stdin.on("data", (d) => (globalThis.t = (globalThis.t ?? "") + d)).on("end", () => console.log(JSON.parse(t).readyReplicas))')" = 1 ]; }
key=$(cat "$BERTH_DATA_DIR/demo.key")
