#!/usr/bin/env bash
# Installs the Python package as a new user does, to the very end, and shows that it trains: clones the commit that is checked
# out, runs `pip install .` in a virtual environment with nothing else in it, deletes the clone, and runs README's example in
# another folder. The same again with the archive of the source that `python3 -m build --sdist` makes of the clone.
#   scripts/fresh/python_install.sh                             compiles the whole library twice, with a CUDA toolkit its kernels, too
#   scripts/fresh/python_install.sh clone                       from the clone alone; or sdist: from the archive alone
#   scripts/fresh/debian.sh scripts/fresh/python_install.sh     the same in a fresh Debian
# CMAKE_ARGS=-DNEAP_CUDA=OFF in the environment leaves out CUDA; then it takes some 20 minutes on two cores, and less with ccache.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONNOUSERSITE=1
unset PYTHONPATH

say() { echo "fresh/python_install: $*" >&2; }

# install_and_train NAME REQUIREMENT: in a new virtual environment; README's Python code must reach 96% with what is installed.
install_and_train() {
  local venv="$work/venv-$1" empty="$work/run-$1"
  python3 -m venv "$venv"
  say "pip install $2"
  "$venv/bin/python" -m pip install --quiet "$2"
  rm -rf "$2"
  mkdir -p "$empty/examples/data"
  cp -r "$root/examples/data/digits" "$empty/examples/data/"
  (cd "$empty" && "$venv/bin/python" -B - "$root/README.md" <<'PYTHON'
import pathlib, re, sys
names = {}
exec("".join(re.findall(r"^```python\n(.*?)^```$", pathlib.Path(sys.argv[1]).read_text(), re.MULTILINE | re.DOTALL)), names)
print(f"neap in {pathlib.Path(names['neap'].__file__).parent}: {names['accuracy']:.1%} of the test images are recognised")
assert names["accuracy"] >= 0.96
PYTHON
  )
}

say "cloning $(git -C "$root" describe --always)"
git clone --quiet "$root" "$work/clone"
"$work/clone/scripts/setup.sh" --python
python3 -m venv "$work/build"
"$work/build/bin/python" -m pip install --quiet build
(cd "$work/clone" && "$work/build/bin/python" -m build --sdist --outdir "$work/sdist" . >/dev/null)
parts="${*:-clone sdist}"
if [[ "$parts" == *clone* ]]; then install_and_train clone "$work/clone"; fi
[[ "$parts" == *sdist* ]] || exit 0
for archive in "$work/sdist"/neap-*.tar.gz; do
  say "the archive has $(tar -tzf "$archive" | wc -l) files, $(stat -c %s "$archive") bytes"
  install_and_train sdist "$archive"
done
