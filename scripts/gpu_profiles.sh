#!/usr/bin/env bash
# Measures the kernels of the networks of nets/ at common batches on this machine's GPU, one case after another, into
# ${OUT:-build/gpu}/profile.db, for plans that are made elsewhere: of each step the first ${ENGINES:-6} engines. Begins no case
# after ${LIMIT:-540} s; run again with the same database, it continues.
#   scripts/gpu_profiles.sh                             all cases, in the order below
#   scripts/gpu_profiles.sh resnet50:256:bf16:nhwc      one of them
#   scripts/gpu_profiles.sh alexnet:256:fp32:nchw:power-of-two
#   scripts/gpu_profiles.sh --list                      prints the cases
set -euo pipefail

# The whole batches of every network in bf16, then of some in the other types and at other batches, then parts of batches.
cases() {
  local net
  for net in alexnet vgg16 resnet50 resnet101 densenet121 inception_v4 googlenet mobilenet_v2 efficientnet_b0 resnext50_32x4d \
    wide_resnet50_2 regnet_y_400mf inception_v3 resnet18 unet:16 vgg19 resnet34 densenet201 mobilenet_v3_large efficientnet_b3 \
    resnet152 densenet169 mobilenet_v3_small efficientnet_b1 fcn8s:16 efficientnet_b2 alexnet-torchvision; do
    case "$net" in *:*) echo "$net:bf16:nhwc" ;; *) echo "$net:128:bf16:nhwc" ;; esac
  done
  for net in alexnet:256 vgg16:64 resnet50:64 resnet101:32 densenet121:32 googlenet:64 inception_v4:32 resnet18:128 unet:8 \
    resnext50_32x4d:32 mobilenet_v2:64 alexnet-torchvision:256 regnet_y_400mf:64 regnet_y_3_2gf:32 resnext101_32x8d:32 \
    efficientnet_b0:32 fcn8s:4 vgg13:64; do
    echo "$net:fp32:nchw"
  done
  for net in resnet50:128 vgg16:64 densenet121:64 inception_v4:64 alexnet:256 resnext50_32x4d:64 efficientnet_b0:128 \
    wide_resnet50_2:64 unet:8; do
    echo "$net:tf32:nhwc"
  done
  for net in resnet50:128 vgg16:64 densenet121:64 inception_v3:64 alexnet:256 resnext50_32x4d:64 mobilenet_v2:128; do
    echo "$net:fp16:nhwc"
  done
  for net in resnet50:256 resnet50:32 alexnet:512 vgg16:32 densenet121:256 efficientnet_b0:256 googlenet:256 mobilenet_v2:32 \
    resnet18:32 inception_v4:32; do
    echo "$net:bf16:nhwc"
  done
  echo alexnet:256:tf32:nchw
  echo vgg16:64:tf32:nchw
  echo resnet50:64:tf32:nchw
  echo alexnet:256:fp32:nchw:power-of-two
  echo alexnet:256:tf32:nchw:power-of-two
  echo vgg16:64:fp32:nchw:power-of-two
  echo resnet50:128:bf16:nhwc:power-of-two
}

if [ "${1:-}" = --list ]; then
  cases
  exit
fi
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root"
limit=${LIMIT:-540}
[ $# -gt 0 ] || mapfile -t all < <(cases)
[ $# -eq 0 ] || all=("$@")
failed=()
for case in "${all[@]}"; do
  if [ "$SECONDS" -ge "$limit" ]; then
    echo "gpu_profiles: $limit s are over; not begun: $case and what follows it"
    break
  fi
  IFS=: read -r net batch dtype layout divisions <<<"$case"
  begin=$SECONDS
  shown "$out/profile_${case//:/_}" neap profile "$net" --batch "$batch" --dtype "$dtype" --layout "$layout" --device cuda:0 \
    --database "$out/profile.db" --divisions "${divisions:-undivided}" --samples "${SAMPLES:-5}" --engines "${ENGINES:-6}" || failed+=("$case")
  echo "$case: $((SECONDS - begin)) s"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "gpu_profiles: failed: ${failed[*]}" >&2
  exit 1
fi
