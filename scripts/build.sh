#!/usr/bin/env bash
# Sets up, configures and builds one preset into build/PRESET; further arguments go to CMake's configure step.
#   scripts/build.sh release
#   NEAP_TARGET=core_tests scripts/build.sh tsan     only these targets and their dependencies
#   scripts/build.sh dev -DNEAP_CUDA=OFF
#   scripts/build.sh release -DBUILD_TESTING=OFF     without tests and the packages that only tests need
set -euo pipefail
preset="${1:?usage: scripts/build.sh dev|release|asan-ubsan|tsan [CMake arguments]}"
shift
testing=(-DBUILD_TESTING=ON)
setup=(--build-tests)
for argument in "$@"; do
  if [ "$argument" = -DBUILD_TESTING=OFF ]; then testing=() setup=(); fi
done
if [ "$preset" = asan-ubsan ]; then setup+=(--sanitizers); fi
"$(dirname "${BASH_SOURCE[0]}")/setup.sh" "${setup[@]}"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

cd "$root"
# NEAP_FETCH downloads dependencies for which the distribution has no package of a suitable version.
if ! log="$(cmake --preset "$preset" -DNEAP_FETCH=ON "${testing[@]}" "$@" 2>&1)"; then
  echo "$log" >&2
  exit 1
fi
cmake --build "build/$preset" --target ${NEAP_TARGET:-all} --parallel "$(build_jobs)" >&2
