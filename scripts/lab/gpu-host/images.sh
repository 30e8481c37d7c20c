#!/usr/bin/env bash
# On the GPU machine: an image with the C library of this machine, busybox and a CUDA program, one with llama-server and
# the model, or one with Python and PyTorch of this machine, under the name of the image in the recipe `vllm`. The last
# needs FOLDER/vllm with the unpacked wheels of vLLM, and FOLDER/lab/MODEL with a config and a tokenizer.
# Usage: images.sh cuda|llama|vllm FOLDER
source "$(dirname "$0")/lib.sh"

# image NAME PROGRAM…: the programs in /app with the libraries that they load, and busybox as the shell.
image() {
  local name=$1 && shift
  local root=$LAB/image && rm -rf "$root" && mkdir -p "$root"/{app,bin,etc,tmp,lib64}
  cp "$LAB/docker/bin/busybox" "$root/bin/" && for tool in sh ls cat echo mkdir sleep env; do ln -s busybox "$root/bin/$tool"; done
  cp "$@" "$root/app/"
  # The libraries of the driver come from the toolkit, in each container; what they need has to be there.
  ldd "$@" /usr/local/nvidia/lib64/libcuda.so.1 | grep -oE '/[^ ]+ \(0x' | cut -d' ' -f1 | sort -u | grep -vE '^/usr/local/nvidia/|libcuda\.so' |
    while read -r file; do mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"; done
  echo 'root:x:0:0::/root:/bin/sh' >"$root/etc/passwd"
  printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib >"$root/etc/ld.so.conf"
  tar c -C "$root" . | docker import --change 'ENV PATH=/app:/bin' --change 'ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64:/usr/local/cuda/lib64:/usr/local/cuda/targets/x86_64-linux/lib' - "$name"
  rm -rf "$root"
}

case $1 in
cuda)
  cat >"$LAB/compute.cu" <<'CUDA'
#include <cstdio>
#include <cstdlib>
__global__ void step(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * 0.5f + 1; }
int main(int argc, char **argv) {
  int n = 1 << 28, rounds = argc > 1 ? atoi(argv[1]) : 1000; float *x, y; cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) || cudaMalloc(&x, n * 4ul)) { puts("no GPU"); return 1; }
  printf("%s, %.0f GiB\n", p.name, p.totalGlobalMem / 1073741824.0); fflush(stdout);
  cudaMemset(x, 0, n * 4ul);
  for (int k = 0; k < rounds; k++) step<<<n / 256, 256>>>(x, n);
  if (cudaMemcpy(&y, x + 5, 4, cudaMemcpyDeviceToHost)) { puts("failed"); return 1; }
  printf("%d steps over %d numbers: %g\n", rounds, n, y); fflush(stdout);
}
CUDA
  nvcc -arch=sm_90 -cudart static -o "$LAB/compute" "$LAB/compute.cu"
  image lab/cuda:1 "$LAB/compute"
  ;;
llama)
  image lab/llama:1 "$LAB/llama-build/bin/llama-server"
  container=$(docker create lab/llama:1 /bin/sh)
  docker cp "$LAB/random-8b.gguf" "$container:/model.gguf"
  docker commit "$container" lab/random-8b:1 && docker rm "$container"
  ;;
vllm)
  folder=$(cd "$2" && pwd)
  printf '#!/bin/sh\nexec python3 -m vllm.entrypoints.cli.main "$@"\n' >"$folder/command" && chmod +x "$folder/command"
  tar c --absolute-names --exclude='/usr/local/cuda*' --exclude=/usr/share/doc --exclude=/usr/local/nvidia \
    --transform "s,^$folder/command,/usr/local/bin/vllm," --transform "s,^$folder/,/," \
    /usr /etc /bin /lib /lib64 /sbin /opt/torch /opt/gcc "$folder/command" "$folder/vllm" "$folder/lab" |
    docker import --change 'WORKDIR /' --change 'ENV PYTHONPATH=/vllm' --change 'ENV HF_HUB_OFFLINE=1' --change 'ENV VLLM_USE_FLASHINFER_SAMPLER=0' \
      --change "ENV PATH=$(dirname "$(command -v python3)"):/usr/local/bin:/usr/bin:/bin" - vllm/vllm-openai:v0.33.0
  ;;
esac
