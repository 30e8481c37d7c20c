#!/usr/bin/env bash
# On the GPU machine: a server, its agent, and a rented container that computes on the GPU. Usage: berth.sh berth.tar.xz
source "$(dirname "$0")/lib.sh"
unpack "$1" berth

has_computed() { berth logs compute | grep -q 'steps over'; }
is_clear() { [ -z "$(docker ps --quiet --filter label=berth.tag)" ]; }

say 'server'
BERTH_ENGINES=host BERTH_DEFAULT_MODELS=none BERTH_LOCAL_ENGINES=false BERTH_LOG_LEVEL=warn setsid "$LAB/berth/bin/node" "$LAB/berth/app/bin/berth.mjs" serve >"$LAB/server.log" 2>&1 </dev/null &
until_true 60 berth status || { tail -30 "$LAB/server.log"; exit 1; }
berth status

say 'agent'
berth agent hardware || true
setsid "$LAB/berth/bin/node" "$LAB/berth/app/bin/berth.mjs" agent run --server "$BERTH_URL" --name h200 --region local --price 3.5 \
  --image lab/cuda:1 --allow-local-images --dir "$LAB/agent" >"$LAB/agent.log" 2>&1 </dev/null &
until_true 60 grep -q 'Ready for tenants' "$LAB/agent.log" || { cat "$LAB/agent.log"; tail -20 "$LAB/server.log"; exit 1; }
cat "$LAB/agent.log"
berth supply hosts

say 'a rented container that computes'
berth gpus
berth rent --gpu h200 --image lab/cuda:1 --command '["/bin/sh","-c","/app/compute 100000; sleep 600"]' --label compute --yes
sleep 15
berth metrics compute
until_true 90 has_computed || { berth logs compute; exit 1; }
berth logs compute
berth terminate compute --yes
until_true 60 is_clear
berth ls --ended --wide
berth ledger verify
