#!/usr/bin/env bash
# On the GPU machine, after berth.sh: a rented container that computes on the GPU. Usage: rent.sh
source "$(dirname "$0")/lib.sh"
has_computed() { berth logs compute | grep -q 'steps over'; }
is_clear() { [ -z "$(docker ps --quiet --filter label=berth.tag)" ]; }

say 'a rented container that computes'
berth gpus ls
berth rent --gpu h200 --image lab/cuda:1 --command '["/bin/sh","-c","/app/compute 100000; sleep 600"]' --label compute --yes
sleep 15
berth metrics compute
until_true 90 has_computed || { berth logs compute; exit 1; }
berth logs compute
berth terminate compute --yes
until_true 60 is_clear
berth ls --ended --wide
berth ledger verify
