#!/usr/bin/env bash
# Builds neap and trains a small ResNet on real handwritten digits, under a budget well below what it would take unmanaged.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
NEAP_TARGET=neap_command scripts/build.sh release
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"  # other programs may want the cores too

build/release/neap train resnet-cifar --depth 14 --image 16 --channels 1 --batch 64 \
  --data idx:examples/data/digits --augment --epochs 50 --lr 0.1 --lr-schedule cosine --warmup 20 \
  --weight-decay 5e-4 --budget 24MiB --eval
