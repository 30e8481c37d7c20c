#!/usr/bin/env bash
# On the GPU machine, after berth.sh: a managed deployment of the model, started from zero by its first request and measured
# through the gateway, then scaled back to zero. Usage: serve.sh
source "$(dirname "$0")/lib.sh"
key=$(cat "$BERTH_DATA_DIR/demo.key") && export BERTH_KEY=$key
is_idle() { berth deployments show random-8b | grep -q '^Status *idle'; }

say 'deployment'
berth deploy random-8b --min 0 --max 1 --budget 10 --idle 15 --target 64 --spec - <<'SPEC'
{
  "recipe": {
    "name": "custom",
    "image": { "name": "lab/random-8b", "tag": "1" },
    "command": ["/app/llama-server"],
    "args": ["--model", "/model.gguf", "--host", "0.0.0.0", "--port", "8080", "--parallel", "32", "--ctx-size", "65536", "--n-gpu-layers", "999"],
    "port": 8080,
    "healthPath": "/health",
    "concurrency": 32
  },
  "gpus": { "model": "H200", "count": 1 }
}
SPEC

say 'from zero'
SECONDS=0
curl -sS "$BERTH_URL/v1/chat/completions" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' --max-time 120 \
  -d '{"model":"demo/random-8b","max_tokens":8,"messages":[{"role":"user","content":"hello"}]}'
echo "The first answer took $SECONDS s."
berth deployments show random-8b

say 'measured'
for _ in 1 2; do "$LAB/berth/bin/node" "$here/measure.mjs" 'through Berth' "$BERTH_URL" demo/random-8b "$key"; done

say 'back to zero'
until_true 60 is_idle || berth deployments show random-8b
berth ls --ended --wide
unset BERTH_KEY
berth ledger verify
