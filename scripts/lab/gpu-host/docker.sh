#!/usr/bin/env bash
# On the GPU machine: Docker with the NVIDIA container toolkit. Usage: docker.sh docker.tar.xz
source "$(dirname "$0")/lib.sh"
unpack "$1" docker
if docker info >/dev/null 2>&1; then exit 0; fi

say 'libraries'
# The toolkit finds those of the driver through the loader's cache, and other programs find the packed ones there.
printf '%s\n' /usr/local/nvidia/lib64 /usr/local/nvidia/lib "$LAB/docker/lib" >/etc/ld.so.conf.d/zz-berth-lab.conf
for program in nft ip; do ln -sf "$LAB/docker/bin/$program" /usr/sbin/; done
ldconfig && ldconfig -p | grep -E 'libcuda.so.1|libnvidia-ml.so.1' || true
ip link set lo up

say 'Docker with the runtime nvidia'
mkdir -p /etc/docker /etc/nvidia-container-runtime
cat >/etc/nvidia-container-runtime/config.toml <<CONFIG
disable-require = true
[nvidia-container-runtime]
mode = "auto"
runtimes = ["$LAB/docker/bin/runc", "runc"]
[nvidia-ctk]
path = "$LAB/docker/bin/nvidia-ctk"
CONFIG
printf '{"default-runtime":"nvidia","runtimes":{"nvidia":{"path":"%s"}}}' "$LAB/docker/bin/nvidia-container-runtime" >/etc/docker/daemon.json
setsid containerd >"$LAB/containerd.log" 2>&1 </dev/null &
until_true 20 test -S /run/containerd/containerd.sock
setsid dockerd --containerd /run/containerd/containerd.sock >"$LAB/dockerd.log" 2>&1 </dev/null &
until_true 40 docker info || { tail -20 "$LAB/dockerd.log"; exit 1; }
docker info 2>/dev/null | grep -E 'Server Version|Storage|Cgroup|Kernel|Runtimes'
