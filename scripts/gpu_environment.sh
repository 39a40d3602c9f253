# shellcheck shell=bash
# For scripts/gpu_*.sh: programs to run on this machine's GPU. Sourced; sets `programs` (the
# folder of the command and the tests), `out` (where logs go), NEAP_LIBRARY_PATH and the function `neap`.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
has_gpu || { echo "There is no NVIDIA GPU on this machine" >&2; exit 1; }

programs="$root/build/bundle"
if [ ! -x "$programs/neap" ]; then
  "$root/scripts/build.sh" release
  "$root/scripts/bundle.sh" release "$programs"
fi

# cuDNN, cuBLAS and NVRTC: of build/deps, of the Python packages nvidia-*-cu13 (newer, as a rule, than what an image
# carries), or of the system.
gpu_libraries() {
  local packages known
  if [ -e "$deps/cuda/lib/libcudnn.so.9" ]; then echo "$deps/cuda/lib"; return; fi
  packages="$(python3 -c '
import os, nvidia.cudnn
print(os.path.dirname(list(nvidia.cudnn.__path__)[0]))' 2>/dev/null || true)"
  if [ -n "$packages" ]; then echo "$packages/cudnn/lib:$packages/cu13/lib"; return; fi
  known="$(PATH="$PATH:/sbin" ldconfig -p)"
  if [[ "$known" == *libcudnn.so.9* && "$known" == *libcublasLt.so.13* ]]; then return; fi
  echo "cuDNN 9 was not found: install it, or run scripts/setup.sh --pypi-cuda" >&2
}
NEAP_LIBRARY_PATH="$programs:$(gpu_libraries)"
export NEAP_LIBRARY_PATH

# neap ARGUMENT...: the command, with those libraries.
neap() {
  LD_LIBRARY_PATH="$NEAP_LIBRARY_PATH" "$programs/neap" "$@"
}

out="${OUT:-$root/build/gpu}"
mkdir -p "$out"
