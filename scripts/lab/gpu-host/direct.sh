#!/usr/bin/env bash
# On the GPU machine: the engine asked directly, in a container of its own. Usage: direct.sh
source "$(dirname "$0")/lib.sh"
answers() { curl -fsS "http://$address:8080/health"; }

say 'llama-server alone'
docker run -d --name direct --gpus all lab/random-8b:1 /app/llama-server --model /model.gguf --host 0.0.0.0 --port 8080 \
  --parallel 32 --ctx-size 65536 --n-gpu-layers 999
address=$(docker inspect -f '{{.NetworkSettings.IPAddress}}' direct)
until_true 120 answers || { docker logs --tail 40 direct; exit 1; }
"$LAB/berth/bin/node" "$here/measure.mjs" direct "http://$address:8080" random-8b
docker rm -f direct >/dev/null
