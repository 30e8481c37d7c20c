#!/usr/bin/env bash
# On the GPU machine, after berth.sh: a managed deployment of the model, started from zero by its first request, measured
# through the gateway and beside it on the same replica. Usage: serve.sh
source "$(dirname "$0")/lib.sh"
weights=$LAB/random-8b.gguf
field() { "$LAB/berth/bin/node" -e 'let t = ""; process.stdin.on("data", (d) => (t += d)).on("end", () => console.log(new Function("it", `return ${process.argv[1]}`)(JSON.parse(t))))' "$1"; }
measure() { "$LAB/berth/bin/node" "$here/measure.mjs" "$@"; }
is_at_zero() { [ "$(berth serving show random-8b --json | field 'it.readyReplicas + it.replicas.filter((one) => one.state !== "ended").length')" = 0 ]; }

say 'weights in the model store of the server'
digest=$(sha256sum "$weights" | cut -d' ' -f1)
berth models ls | grep -q lab/weights || berth models add lab/weights --gguf "$weights" --sha256 "$digest" --input-price 0 --output-price 0

say 'deployment'
key=$(cat "$BERTH_DATA_DIR/demo.key") && export BERTH_KEY=$key
berth deploy random-8b --min 0 --max 1 --budget 10 --idle 20 --target 64 --spec - <<SPEC
{
  "recipe": {
    "name": "llama.cpp",
    "image": { "name": "lab/llama", "tag": "1" },
    "contextTokens": 2048,
    "concurrency": 32,
    "weights": {
      "mountPath": "/weights",
      "files": [
        {
          "path": "random-8b.gguf",
          "bytes": $(stat -c %s "$weights"),
          "sha256": "$digest",
          "source": { "kind": "server", "model": "lab/weights", "file": "random-8b.gguf" }
        }
      ]
    }
  },
  "gpus": { "model": "H200", "count": 1 }
}
SPEC
model=$(berth serving show random-8b --json | field it.model)

say 'from zero'
SECONDS=0
curl -sS -N "$BERTH_URL/v1/chat/completions" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' --max-time 280 \
  -d "{\"model\":\"$model\",\"stream\":true,\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}" | tail -n 4
echo "The first answer took $SECONDS s."
berth serving show random-8b
berth serving show random-8b --json | field 'JSON.stringify(it.replicas[0], null, 1)'
berth metrics "$(berth serving show random-8b --json | field 'it.replicas[0].rentalName')" || true
nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv

say 'measured'
container=$(docker ps --quiet --filter label=berth.tag | head -1)
address=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$container")
engine_key=$(docker inspect -f '{{range .Config.Env}}{{println .}}{{end}}' "$container" | sed -n 's/^LLAMA_API_KEY=//p')
for round in 1 2; do
  measure "direct, round $round" "http://$address:8080" "$model" "$engine_key"
  measure "through Berth, round $round" "$BERTH_URL" "$model" "$key"
done

say 'back to zero'
until_true 120 is_at_zero || berth serving show random-8b
berth ls --ended --wide
unset BERTH_KEY
berth ledger verify | tail -n 3
