#!/usr/bin/env bash
# Compares predicted with measured iterations on this machine's GPU (docs/results.md): AlexNet, VGG-16 and ResNet-50 in fp32 and
# tf32. Every kernel is profiled first. Logs go to ${OUT:-build/gpu}; times of engines are kept in
# ${DATABASE:-$OUT/profile.db}, and a later run measures only missing ones.
#   scripts/gpu_prediction.sh                           all six
#   scripts/gpu_prediction.sh alexnet_256_fp32_nchw     one of them
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root"

# predict NET_BATCH_DTYPE_LAYOUT
predict() {
  local net batch dtype layout log="$out/prediction_$1"
  IFS=_ read -r net batch dtype layout <<<"$1"
  local flags=("$net" --batch "$batch" --dtype "$dtype" --layout "$layout" --device cuda:0 --database "$database")
  logged "$log.profile" neap profile "${flags[@]}" --divisions undivided
  logged "$log" neap train "${flags[@]}" --data synthetic --repeat-batch --lr 0 --steps 60
  printf '\n== %s (%d s)\n' "$1" "$SECONDS"
  grep -E '^  (speed|predicted  )' "$log.log"
}

gpu_line | tee "$out/machine.log"
if [ $# -eq 0 ]; then
  for net in alexnet_256 vgg16_64 resnet50_128; do set -- "$@" "${net}_fp32_nchw" "${net}_tf32_nhwc"; done
fi
for name in "$@"; do predict "$name"; done
