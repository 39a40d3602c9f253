#!/usr/bin/env bash
# Builds neap and trains a small ResNet on real handwritten digits, in less than half of the memory that it takes if all
# tensors are freed after their last use. The line "to fit" says what each step computes again, or, on a GPU, moves out
# and back; the last lines say what the process took in all, and commands to go on with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
NEAP_TARGET=neap_command scripts/build.sh release -DBUILD_TESTING=OFF

build/release/neap train resnet-cifar --depth 14 --image 16 --channels 1 --batch 64 \
  --data idx:examples/data/digits --augment --epochs 50 --lr 0.1 --lr-schedule cosine --warmup 20 \
  --weight-decay 5e-4 --budget 9MiB --eval --save build/digits.safetensors
