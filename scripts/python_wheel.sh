#!/usr/bin/env bash
# Builds the Python package's wheel into build/PRESET/wheel, from the objects that the preset has already compiled.
#   scripts/python_wheel.sh [PRESET [PYTHON]]      dev by default; PYTHON has scikit-build-core and nanobind (pyproject.toml)
set -euo pipefail
preset="${1:-dev}"
python="${2:-python3}"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$root"

# The build type must stay that of the preset, or everything would be compiled again; so must BUILD_TESTING, or its tests would go.
cached() { sed -n "s/^$1:[A-Z]*=//p" "build/$preset/CMakeCache.txt"; }
type="$(cached CMAKE_BUILD_TYPE)"
testing="$(cached BUILD_TESTING)"
rm -rf "build/$preset/wheel"
CMAKE_BUILD_PARALLEL_LEVEL="$(build_jobs)" "$python" -m pip wheel . --quiet --no-build-isolation --no-deps \
  --wheel-dir "build/$preset/wheel" -Cbuild-dir="build/$preset" -Ccmake.build-type="$type" \
  -Ccmake.define.BUILD_TESTING="${testing:-ON}"
ls "build/$preset/wheel"
