#!/usr/bin/env bash
# On the GPU machine: builds llama-server with CUDA and writes the model. Usage: llama.sh llama.tar.xz [CMAKE_FLAG…]
source "$(dirname "$0")/lib.sh"
unpack "$1" llama && shift
say 'model'
python3 "$here/make-model.py" "$LAB/llama/gguf-py" "$LAB/random-8b.gguf.part" && mv "$LAB/random-8b.gguf.part" "$LAB/random-8b.gguf" &
say 'llama-server'
cmake -S "$LAB/llama" -B "$LAB/llama-build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90 \
  -DGGML_NATIVE=OFF -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
  -DLLAMA_BUILD_HTML=OFF "$@" >"$LAB/cmake.log" 2>&1 || { tail -30 "$LAB/cmake.log"; exit 1; }
cmake --build "$LAB/llama-build" --target llama-server >"$LAB/llama-build.log" 2>&1 || { tail -30 "$LAB/llama-build.log"; exit 1; }
wait
say 'built' && ls -l "$LAB/llama-build/bin/llama-server" "$LAB/random-8b.gguf"
