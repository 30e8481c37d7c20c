# Shared by the scripts that run on the GPU machine. LAB is the folder of everything.
set -euo pipefail
LAB=${LAB:-/tmp/berth-lab}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$LAB/docker/bin:$LAB/berth/bin:/usr/local/nvidia/bin:/usr/local/cuda/bin:$PATH
export XTABLES_LIBDIR=$LAB/docker/lib/xtables
export BERTH_DATA_DIR=$LAB/data BERTH_URL=http://127.0.0.1:8420
mkdir -p "$LAB"

say() { printf '\n== %s (%s)\n' "$*" "$(date +%T)"; }
unpack() { [ -d "$LAB/$2" ] || { mkdir "$LAB/$2" && tar xJf "$1" -C "$LAB/$2"; }; }
berth() { "$LAB/berth/bin/node" "$LAB/berth/app/bin/berth.mjs" "$@"; }

# until_true SECONDS COMMAND…: waits for a fact.
until_true() {
  local end=$((SECONDS + $1)) && shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS > end)); then echo "gave up waiting for: $*" && return 1; fi
    sleep 0.3
  done
}
