#!/usr/bin/env bash
# Installs the Debian packages that `cpack -G DEB` has made, and uses them as a new user does: trains on the digits with the
# command, and builds README's program with pkg-config and examples/consumer with find_package. It changes the system that it
# runs in, so run it by scripts/fresh/debian.sh.
#   scripts/fresh/packages.sh [FOLDER]      the folder of the packages, build/release by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder="$(realpath "${1:-build/release}")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

say() { echo "fresh/packages: $*" >&2; }

say "installing $(cd "$folder" && echo ./*.deb)"
apt-get update -qq
apt-get install -qq "$folder"/neap_*.deb "$folder"/libneap-dev_*.deb >/dev/null
apt-get install -qq cmake g++ pkg-config python3 >/dev/null
neap --version
neap plan resnet50 --budget 12GiB --device h200

say 'training on the digits'
neap train resnet-cifar --data idx:examples/data/digits --image 8 --channels 1 --depth 8 --batch 64 --epochs 20 --augment --eval \
  --lr 0.1 --weight-decay 0.001 --lr-schedule cosine --device cpu --budget 3MiB --json | tee "$work/log"
python3 -c 'import json, sys; assert json.loads(open(sys.argv[1]).readlines()[-1])["evaluation"]["accuracy"] >= 0.96' "$work/log"

# The program of README.md, in the shared library by pkg-config, and examples/consumer, in the static one by find_package.
say 'programs with the installed libraries'
sed -n '/^```cpp$/,/^```$/{/^```/!p}' README.md >"$work/readme.cc"
# shellcheck disable=SC2046
g++ -std=c++20 "$work/readme.cc" -o "$work/readme" $(pkg-config --cflags --libs neap)
"$work/readme"
cmake -S examples/consumer -B "$work/consumer" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer" >/dev/null
"$work/consumer/consumer"
say passed
