#!/usr/bin/env bash
# Builds neap and trains a small ResNet on real handwritten digits, under a budget well below what it would take.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/build.sh release

build/release/neap train resnet --data idx:examples/data/digits --epochs 12 --budget 24MiB
