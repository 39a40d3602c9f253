#!/usr/bin/env bash
# What takes too long for .ci/run, which checks every commit: clang-tidy on all sources, compilation of every source alone and of all
# sources of a folder together, all tests with AddressSanitizer and UndefinedBehaviorSanitizer and the CUDA kernels on an emulated GPU,
# both also with what .ci/run leaves out, plans for many requests and budgets, and fuzzing for an hour for each file format, from the
# inputs that the nights before have found. All parts run, whatever fails; the end says what did, and the exit code is 1.
#   scripts/nightly.sh                       all parts
#   scripts/nightly.sh lint tests fuzz       some of them
#   NEAP_FUZZ_SECONDS=60 scripts/nightly.sh  fuzzing for a minute
#   NEAP_FUZZ_CORPUS=DIR scripts/nightly.sh  the folder of these inputs, ~/.cache/neap/fuzz by default: a folder for each format
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null
parts=(lint units tests emulation plans fuzz)
[ $# -gt 0 ] || set -- "${parts[@]}"
for part in "$@"; do
  [[ " ${parts[*]} " == *" $part "* ]] || { echo "nightly: no part $part" >&2; exit 2; }
done
scripts/setup.sh --lint --tests --sanitizers || exit 1
source scripts/environment.sh

seconds="${NEAP_FUZZ_SECONDS:-3600}"
corpus="${NEAP_FUZZ_CORPUS:-${XDG_CACHE_HOME:-$HOME/.cache}/neap/fuzz}"
asan=build/asan-ubsan
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive UBSAN_OPTIONS=print_stacktrace=1
export ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-14

lint() { scripts/build.sh dev && scripts/lint.py; }

# Whether every source includes what it uses, and names are unique in a folder, however it is divided into units.
units() {
  local count
  for count in 1 1000 8; do scripts/build.sh dev "-DNEAP_UNITY=$count" || return; done
}

# tests_of REGEX TIMEOUT: runs these tests under the sanitizers.
tests_of() {
  ctest --test-dir "$asan" --output-on-failure --no-tests=error --timeout "$2" --parallel "$(build_jobs)" --label-exclude gpu --tests-regex "$1"
}
# Those that need a GPU are left out, because the preset has no CUDA.
tests() {
  scripts/build.sh asan-ubsan &&
    tests_of '^(core|layers|memory|recompute|nets|apps)/' 3600
}

# CUDA kernels on an emulated GPU, also the cases that .ci/run leaves out.
emulation() {
  scripts/build.sh dev && cmake --build build/dev --target emulated_cuda_tests emulated_cuda_rest
}

# Random requests against all numbers of parts, and budgets of which no larger one may be slower, of eight networks.
plans() {
  scripts/build.sh release || return
  local failed=0
  NEAP_RANDOM_SEEDS=300 build/release/tests/memory_tests --test-case='random requests*' || failed=1
  NEAP_SWEEP_BUDGETS=200 NEAP_SWEEP_NETS=all build/release/tests/apps_tests --test-case='sweep:*' || failed=1
  return "$failed"
}

# merge NAME: leaves, of the inputs of fuzz_NAME, the smallest ones that reach all code that any of them reaches.
merge() {
  local merged
  merged="$(mktemp -d "$corpus/merged.XXXXXX")"
  if "$asan/tests/fuzz/fuzz_$1" -merge=1 "$merged" "$corpus/fuzz_$1_corpus" >/dev/null 2>&1; then
    rm -rf "${corpus:?}/fuzz_$1_corpus"
    mv "$merged" "$corpus/fuzz_$1_corpus"
  else
    rm -rf "$merged"
  fi
}
fuzz() {
  local fuzzers name status=0
  mkdir -p "$corpus"
  mapfile -t fuzzers < <(basename -s .cc -a tests/fuzz/fuzz_*.cc | grep -vx fuzz_main | sed 's/^fuzz_//')
  NEAP_TARGET="${fuzzers[*]/#/fuzz_}" scripts/build.sh asan-ubsan "-DNEAP_FUZZ_SECONDS=$seconds" "-DNEAP_FUZZ_CORPUS=$corpus" -DNEAP_FUZZ_SEED=0 || return
  tests_of '^fuzz/' $((seconds + 600)) || status=$?
  for name in "${fuzzers[@]}"; do merge "$name"; done
  echo "nightly: inputs kept: $(find "$corpus" -type f | wc -l), $(du -sm "$corpus" | cut -f1) MiB in $corpus"
  return "$status"
}

failed=()
for part in "$@"; do
  printf '\n=== %s (%d s)\n' "$part" "$SECONDS"
  "$part" || failed+=("$part")
done
if [ "${#failed[@]}" -gt 0 ]; then
  printf '\nnightly: failed: %s (%d s)\n' "${failed[*]}" "$SECONDS"
  exit 1
fi
printf '\nnightly: passed (%d s)\n' "$SECONDS"
