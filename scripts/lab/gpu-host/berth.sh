#!/usr/bin/env bash
# On the GPU machine: a server and its agent. Usage: berth.sh berth.tar.xz
source "$(dirname "$0")/lib.sh"
unpack "$1" berth

say 'server'
BERTH_DRIVERS=host BERTH_DEFAULT_MODELS=none BERTH_LOG_LEVEL=warn setsid "$LAB/berth/bin/node" "$LAB/berth/app/bin/berth.mjs" serve >"$LAB/server.log" 2>&1 </dev/null &
until_true 60 berth status || { tail -30 "$LAB/server.log"; exit 1; }
berth status

say 'agent'
berth agent hardware || true
setsid "$LAB/berth/bin/node" "$LAB/berth/app/bin/berth.mjs" agent run --server "$BERTH_URL" --name h200 --region local --price 3.5 \
  --image lab/cuda:1 --allow-local-images --weights-gb 16 --dir "$LAB/agent" >"$LAB/agent.log" 2>&1 </dev/null &
until_true 60 grep -q 'Ready for tenants' "$LAB/agent.log" || { cat "$LAB/agent.log"; tail -20 "$LAB/server.log"; exit 1; }
cat "$LAB/agent.log"
berth supply hosts ls
