# shellcheck shell=bash
# Sourced by scripts/gpu_*.sh, which run programs on this machine's GPU. Sets `programs` (the folder of the command and the
# tests), `out` (the folder of the logs), `database` (the times of engines), NEAP_LIBRARY_PATH and the functions below.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
has_gpu || { echo "There is no NVIDIA GPU on this machine" >&2; exit 1; }

programs="$root/build/bundle"
if [ ! -x "$programs/neap" ]; then
  "$root/scripts/build.sh" release
  "$root/scripts/bundle.sh" release "$programs"
fi

# The folders of cuDNN, cuBLAS, NVRTC and NCCL: in build/deps, in the Python packages nvidia-*-cu13 (usually newer than those of
# an image), or in the system.
gpu_libraries() {
  local packages known
  if [ -e "$deps/cuda/lib/libcudnn.so.9" ]; then echo "$deps/cuda/lib"; return; fi
  packages="$(python3 -c '
import os, nvidia.cudnn
print(os.path.dirname(list(nvidia.cudnn.__path__)[0]))' 2>/dev/null || true)"
  if [ -n "$packages" ]; then echo "$packages/cudnn/lib:$packages/cu13/lib:$packages/nccl/lib"; return; fi
  known="$(PATH="$PATH:/sbin" ldconfig -p)"
  if [[ "$known" == *libcudnn.so.9* && "$known" == *libcublasLt.so.13* ]]; then return; fi
  echo "cuDNN 9 was not found: install it, or run scripts/setup.sh --pypi-cuda" >&2
}
NEAP_LIBRARY_PATH="$programs:$(gpu_libraries)"
export NEAP_LIBRARY_PATH

# neap ARGUMENT...: runs the command with these libraries.
neap() {
  LD_LIBRARY_PATH="$NEAP_LIBRARY_PATH" "$programs/neap" "$@"
}

out="${OUT:-$root/build/gpu}"
database="${DATABASE:-$out/profile.db}"
mkdir -p "$out"

# end_if_stopped STATUS: ends the script if Ctrl-C (130) or SIGTERM (143) has ended a command.
end_if_stopped() {
  case "$1" in 130 | 143) exit "$1" ;; esac
}

# logged LOG COMMAND...: runs COMMAND with its output in LOG.log and its progress in LOG.err, and returns its exit code. If it
# fails, both are shown; if it is stopped, the script ends too. There is no pipe, because Ctrl-C would end the pipe's reader
# before the command has printed its results.
logged() {
  local log="$1" status=0
  shift
  "$@" >"$log.log" 2>"$log.err" || status=$?
  [ "$status" -ne 0 ] || return 0
  cat "$log.log"
  tail -c 400 "$log.err" >&2
  end_if_stopped "$status"
  return "$status"
}

# shown LOG COMMAND...: the same, and shows the output at the end.
shown() { logged "$@" && cat "$1.log"; }

# gpu_count: how many GPUs programs see, which CUDA_VISIBLE_DEVICES may limit.
gpu_count() { neap devices | grep -c '^cuda:'; }

# gpu_line: prints this machine's GPU and its driver.
gpu_line() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader || true
}
