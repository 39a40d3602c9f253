#!/usr/bin/env bash
# Tests the Python package: builds a wheel from a preset's objects, installs it in a virtual environment of its own, and runs
# pytest on tests/apps/python, and on the tests of scripts that need numpy, several tests at a time, in a folder outside of the tree.
#   scripts/python_test.sh [PRESET [PYTEST ARGUMENT...]]
set -euo pipefail
preset="${1:-dev}"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$root"
scripts/setup.sh --python

venv="$root/build/$preset/python"
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
# What pyproject.toml requires of the build and of the tests.
mapfile -t requirements < <("$venv/bin/python" -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
print(*project["build-system"]["requires"], *project["project"]["optional-dependencies"]["test"], sep="\n")')
"$venv/bin/python" -m pip install --quiet "${requirements[@]}"
scripts/python_wheel.sh "$preset" "$venv/bin/python"
"$venv/bin/python" -m pip install --quiet --no-deps --force-reinstall "build/$preset/wheel/"neap-*.whl

outside="$(mktemp -d)"
trap 'rm -rf "$outside"' EXIT
cd "$outside"
export OMP_NUM_THREADS=1 XDG_CACHE_HOME="$outside/cache" NEAP_TREE="$root" NEAP_COMMAND="$root/build/$preset/neap"
"$venv/bin/python" -B -m pytest -p no:cacheprovider -q --numprocesses "$(build_jobs)" "${@:2}" "$root/tests/apps/python" \
  "$root/tests/scripts/fit_cost_model_test.py"
