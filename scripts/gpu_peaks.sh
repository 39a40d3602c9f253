#!/usr/bin/env bash
# Finds the largest batches and the deepest ResNets that can be trained in 12 GiB on this machine's GPU, and trains them
# (SuperNeurons, tables 4 and 5), without sub-batches as in the paper. Logs go to ${OUT:-build/gpu}.
#   HOST=64GiB scripts/gpu_peaks.sh                  with less pinned host memory than 90 GiB
#   TYPE='bf16 nhwc' scripts/gpu_peaks.sh            in another type and layout than fp32 NCHW
#   NETS='resnet50 vgg16' scripts/gpu_peaks.sh       fewer networks
#   POLICY=superneurons scripts/gpu_peaks.sh         by another policy than auto
#   KEEP=80% scripts/gpu_peaks.sh                    only the largest batches that keep 80% of their speed, with sub-batches
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root" || exit 1
export LD_LIBRARY_PATH="$NEAP_LIBRARY_PATH"
neap="$programs/neap"
read -r dtype layout <<<"${TYPE:-fp32 nchw}"
common=(--policy "${POLICY:-auto}" --dtype "$dtype" --layout "$layout" --device cuda:0 --budget 12GiB)
common+=(--host-budget "${HOST:-90GiB}")

step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

if [ -n "${KEEP:-}" ]; then
  step "largest batches at $KEEP of their speed"
  for net in ${NETS:-alexnet vgg16 inception_v4 densenet121 resnet50 resnet101 resnet152}; do
    shown "$out/keep_batch_$net" timeout --foreground 300 "$neap" peak-batch "$net" "${common[@]}" --keep "$KEEP" \
      --run --steps 5
  done
  exit
fi

step 'largest batches'
for net in ${NETS:-alexnet vgg16 inception_v4 resnet50 resnet101 resnet152}; do
  shown "$out/peak_batch_$net" timeout --foreground 200 "$neap" peak-batch "$net" "${common[@]}" --sub-batches 1 \
    --run --steps 3 --compare-batch 32
done

step "ResNets of SuperNeurons' rule, batch 16; deeper ones with parameters on the host"
train_at() {
  echo "depth $*"
  shown "$out/depth_$1" timeout --foreground 280 "$neap" train resnet --batch 16 --data synthetic --repeat-batch --lr 0 \
    --steps 3 "${common[@]}" --depth "$@"
}
train_at 1922
train_at 3902
train_at 5003 --offload-params
train_at 10001 --offload-params
