#!/usr/bin/env bash
# Measures ResNet-50's speed on this machine's GPU in the 6.2 GiB that PyTorch's save_on_cpu takes, with a trace of one step
# under each policy (docs/timeline.md), and compares neap with PyTorch. Logs and traces go to ${OUT:-build/gpu}.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root"

{
  gpu_line
  neap devices --measure-copies || true
  echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
} | tee "$out/machine.log"

for kind in 'fp32 nchw' 'tf32 nhwc'; do
  read -r dtype layout <<<"$kind"
  shown "$out/bench_resnet50_$dtype" neap train resnet50 --data synthetic --repeat-batch --device cuda:0 --batch 128 --steps 60 \
    --dtype "$dtype" --layout "$layout"
done
for policy in chen superneurons offload; do
  shown "$out/resnet50_6GiB_$policy" neap train resnet50 --data synthetic --repeat-batch --device cuda:0 --batch 128 --steps 30 \
    --dtype tf32 --layout nhwc --policy "$policy" --budget 6.2GiB --trace-out "$out/trace_resnet50_$policy.json"
done
shown "$out/compare_pytorch" python3 -u scripts/compare_pytorch.py --neap "$programs/neap"
