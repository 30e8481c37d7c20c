#!/usr/bin/env bash
# On the GPU machine, after berth.sh: an array of jobs that compute on the GPU one after another. Usage: jobs.sh [COUNT]
source "$(dirname "$0")/lib.sh"
count=${1:-20}

say "an array of $count jobs"
SECONDS=0
berth run --gpu h200 --image lab/cuda:1 --array "$count" --name array -- \
  /bin/sh -c 'mkdir -p /berth/output && /app/compute 2000 && echo "{\"index\": $BERTH_JOB_INDEX}" >/berth/output/result.json' || true
echo "The array took $SECONDS s."
berth jobs tasks array
berth jobs show array
berth ls --ended
berth ledger verify
