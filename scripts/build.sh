#!/usr/bin/env bash
# Sets up, configures and builds one preset into build/PRESET; further arguments go to CMake's configure step.
#   scripts/build.sh release
#   NEAP_TARGET=core_tests scripts/build.sh tsan     those targets and what they need, instead of everything
#   scripts/build.sh dev -DNEAP_CUDA=OFF
#   scripts/build.sh release -DBUILD_TESTING=OFF     without tests, and without what only they are built with
set -euo pipefail
preset="${1:?usage: scripts/build.sh dev|release|asan-ubsan|tsan [CMake arguments]}"
shift
testing=(-DBUILD_TESTING=ON)
setup=(--build-tests)
for argument in "$@"; do
  if [ "$argument" = -DBUILD_TESTING=OFF ]; then testing=() setup=(); fi
done
"$(dirname "${BASH_SOURCE[0]}")/setup.sh" "${setup[@]}"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

cd "$root"
# NEAP_FETCH: what this distribution has no package for, or only one that is too old or too new, is downloaded.
if ! log="$(cmake --preset "$preset" -DNEAP_FETCH=ON "${testing[@]}" "$@" 2>&1)"; then
  echo "$log" >&2
  exit 1
fi
cmake --build "build/$preset" --target ${NEAP_TARGET:-all} --parallel "$(build_jobs)" >&2
