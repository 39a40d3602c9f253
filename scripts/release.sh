#!/usr/bin/env bash
# Makes what users install without compiling: the Debian packages neap and libneap-dev, and the wheel of the Python package, for the
# distribution and the Python of this machine, with CUDA if a toolkit is found. Also writes SHA256SUMS.
#   scripts/release.sh [FOLDER]      into build/packages by default
# Installing them is tested by scripts/fresh/packages.sh, in a fresh Debian by scripts/fresh/debian.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out="$(realpath -m "${1:-build/packages}")"
scripts/setup.sh --packages --python
source scripts/environment.sh

say() { echo "release: $*" >&2; }

say "building ($(git describe --always --dirty 2>/dev/null || echo 'without git'))"
scripts/build.sh release -DBUILD_TESTING=OFF
rm -rf "$out"
mkdir -p "$out"

say 'Debian packages'
(cd build/release && cpack -G DEB -B "$out" >/dev/null)
rm -rf "$out/_CPack_Packages"

say 'wheel'
venv=build/release/packaging
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# What pyproject.toml requires of the build.
mapfile -t requirements < <("$venv/bin/python" -c '
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')
PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install --quiet "${requirements[@]}"
scripts/python_wheel.sh release "$venv/bin/python" >/dev/null
mv build/release/wheel/neap-*.whl "$out/"

cd "$out"
sha256sum -- *.deb *.whl >SHA256SUMS
say "made in $SECONDS s, in $out:"
du -m -- *.deb *.whl | sed 's/\t/ MiB  /'
