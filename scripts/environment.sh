# shellcheck shell=bash
# Makes the dependencies that scripts/setup.sh installed in build/deps visible to CMake. Sourced by the other scripts; sets
# `root` and `deps`.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
deps="$root/build/deps"

if [ -d "$deps/tools/bin" ]; then
  export PATH="$deps/tools/bin:$PATH"
  export PYTHONPATH="$deps/tools${PYTHONPATH:+:$PYTHONPATH}"
fi
if [ -x "$deps/cuda/bin/nvcc" ]; then
  export PATH="$deps/cuda/bin:$PATH"
  export CUDACXX="$deps/cuda/bin/nvcc"
  export CUDAToolkit_ROOT="$deps/cuda"
  export CMAKE_PREFIX_PATH="$deps/cuda${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
elif [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
  export CUDACXX=/usr/local/cuda/bin/nvcc
fi

# True where there is an NVIDIA GPU that programs can use.
has_gpu() {
  [ -e /dev/nvidia0 ] || [[ "$(nvidia-smi -L 2>/dev/null || true)" == *GPU* ]]
}

# True where there is a CUDA compiler.
has_cuda_toolkit() {
  [ -n "${CUDACXX:-}" ] || command -v nvcc >/dev/null
}

# The number of parallel compilations: one per core, if there are 1.5 GiB of memory for each.
build_jobs() {
  local cores memory
  cores="$(nproc)"
  memory="$(awk '/^MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)"
  if [ "$memory" -lt 1 ]; then memory=1; fi
  if [ "$memory" -lt "$cores" ]; then echo "$memory"; else echo "$cores"; fi
}
