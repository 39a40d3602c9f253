#!/usr/bin/env bash
# Times convolutions undivided and in micro-batches on this machine's GPU (u-cuDNN, section IV; docs/convolutions.md): AlexNet at
# batch 256 and DeepBench's shapes at ${BATCH_FACTOR:-4} times their batches, as in the paper. Tables, CSV files and charts go to
# ${OUT:-build/gpu}. Times of single engines are kept in ${DATABASE:-$OUT/profile.db}; a later run measures only missing ones.
#   scripts/gpu_conv.sh                                     all five
#   scripts/gpu_conv.sh alexnet_tf32_nchw                   one of them
#   DIVISIONS=power-of-two scripts/gpu_conv.sh              less measuring
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root"

# bench SET_DTYPE_LAYOUT
bench() {
  local set dtype layout log="$out/conv_$1"
  IFS=_ read -r set dtype layout <<<"$1"
  local flags=(--set "$set" --dtype "$dtype" --layout "$layout")
  if [ "$set" = alexnet ]; then flags+=(--batch 256 --total 120MiB); fi
  if [ "$set" = deepbench ]; then flags+=(--batch-factor "${BATCH_FACTOR:-4}" --total 512MiB); fi
  printf '\n== %s (%d s)\n' "$1" "$SECONDS"
  shown "$log" neap bench conv --device cuda:0 --database "$database" --divisions "${DIVISIONS:-all}" "${flags[@]}" \
    --csv "$log.csv" --chart "$log.svg"
}

gpu_line | tee "$out/machine.log"
if [ $# -eq 0 ]; then set -- alexnet_tf32_nchw alexnet_fp32_nchw alexnet_tf32_nhwc deepbench_fp32_nchw deepbench_tf32_nchw; fi
for name in "$@"; do bench "$name"; done
