#!/usr/bin/env bash
# Compares ways to choose workspaces on this machine's GPU (SuperNeurons, Figure 12; moDNN 5.2.3; docs/convolutions.md): AlexNet in
# pools of 3 and 5 GiB at batches 100 to 400. Each batch is profiled first. Tables and CSV files go to ${OUT:-build/gpu}; times of
# engines are kept in ${DATABASE:-$OUT/profile.db}, and a later run measures only missing ones.
#   scripts/gpu_workspace.sh                                both
#   scripts/gpu_workspace.sh alexnet_tf32_nchw              one of them
#   BUDGETS=1GiB,2GiB BATCHES=100,200 scripts/gpu_workspace.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root"
batches="${BATCHES:-100,150,200,250,300,350,400}"

# bench NET_DTYPE_LAYOUT
bench() {
  local net dtype layout batch log="$out/workspace_$1"
  IFS=_ read -r net dtype layout <<<"$1"
  local flags=(--dtype "$dtype" --layout "$layout" --device cuda:0 --database "$database" --divisions power-of-two)
  for batch in ${batches//,/ }; do
    printf '\n== profile %s at batch %s (%d s)\n' "$1" "$batch" "$SECONDS"
    logged "$log.profile" neap profile "$net" --batch "$batch" "${flags[@]}"
  done
  printf '\n== %s (%d s)\n' "$1" "$SECONDS"
  shown "$log" neap bench workspace "$net" "${flags[@]}" --budgets "${BUDGETS:-3GiB,5GiB}" --batches "$batches" --per-step \
    --csv "$log.csv"
}

gpu_line | tee "$out/machine.log"
if [ $# -eq 0 ]; then set -- alexnet_fp32_nchw alexnet_tf32_nchw; fi
for name in "$@"; do bench "$name"; done
