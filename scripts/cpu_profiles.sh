#!/usr/bin/env bash
# Measures the kernels of some networks of nets/ at small batches on this machine's CPU, one case after another, into
# ${OUT:-build/cpu}/profile.db, for scripts/fit_cost_model.py --device cpu: of each step the engine that oneDNN lists first, and
# those that need less workspace. Begins no case after ${LIMIT:-900} s; run again with the same database, it continues.
#   scripts/cpu_profiles.sh                             all cases, in the order below
#   scripts/cpu_profiles.sh resnet50:4:fp32:nchw        one of them
#   scripts/cpu_profiles.sh --list                      prints the cases
set -euo pipefail

# Many networks in NCHW, then some in NHWC and at other batches.
cases() {
  local net
  for net in lenet:16 alexnet:8 resnet18:4 vgg13:2 mobilenet_v2:4 efficientnet_b0:4 googlenet:4 resnet50:4 densenet121:2 \
    unet:1 resnet20:16 mobilenet_v3_small:8 resnext50_32x4d:2 inception_v3:2 regnet_y_400mf:4 inception_v4:2 wide_resnet50_2:2 \
    alexnet-torchvision:8 mobilenet_v3_large:4 densenet-bc-cifar:8 efficientnet_b1:2; do
    echo "$net:fp32:nchw"
  done
  for net in lenet:16 alexnet:8 resnet18:4 vgg13:2 mobilenet_v2:4 efficientnet_b0:4 googlenet:4 resnet50:4 densenet121:2 \
    resnet20:16 resnext50_32x4d:2 inception_v3:2; do
    echo "$net:fp32:nhwc"
  done
  for net in lenet:128 alexnet:2 resnet18:16 mobilenet_v2:16 googlenet:16 resnet50:16 densenet121:8 resnet20:128 lenet:2; do
    echo "$net:fp32:nchw"
  done
}

if [ "${1:-}" = --list ]; then
  cases
  exit
fi
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$root"
neap="${NEAP:-build/release/neap}"
[ -x "$neap" ] || scripts/build.sh release
out="${OUT:-build/cpu}"
mkdir -p "$out"
[ $# -gt 0 ] || mapfile -t all < <(cases)
[ $# -eq 0 ] || all=("$@")
for case in "${all[@]}"; do
  if [ "$SECONDS" -ge "${LIMIT:-900}" ]; then
    echo "cpu_profiles: ${LIMIT:-900} s are over; not begun: $case and what follows it"
    break
  fi
  IFS=: read -r net batch dtype layout <<<"$case"
  begin=$SECONDS
  "$neap" profile "$net" --batch "$batch" --dtype "$dtype" --layout "$layout" --device cpu --database "$out/profile.db" \
    --divisions undivided --samples "${SAMPLES:-5}" --engines 1
  echo "$case: $((SECONDS - begin)) s"
done
