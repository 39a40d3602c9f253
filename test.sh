#!/usr/bin/env bash
# Builds neap and runs all its tests, including the GPU tests if there is a GPU. What is missing is installed first by
# scripts/setup.sh, which names it: compilers, libraries, and on Debian a browser, for the test that looks at a page.
#   ./test.sh [PRESET [CMAKE ARGUMENT...]]   the default preset is release
#   NEAP_RANDOM_SEEDS=500 ./test.sh          tries all random networks in each test of them, not the first 6, which takes twice as long
set -euo pipefail
preset="${1:-release}"
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/setup.sh --tests
scripts/build.sh "$preset" "${@:2}"
source scripts/environment.sh

if has_gpu; then
  echo "test: with the GPU tests"
else
  echo "test: no GPU here; the tests that need one report themselves as skipped"
fi
export NEAP_RANDOM_SEEDS="${NEAP_RANDOM_SEEDS:-6}"
# Tests run in parallel, each with a few threads that sleep while they wait.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
results="$PWD/build/$preset/tests.xml" status=0
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --timeout 900 --parallel "$(build_jobs)" \
  --output-junit "$results" --test-output-size-passed 100000 || status=$?
scripts/skipped_tests.py "$results"
exit "$status"
