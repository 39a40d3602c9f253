#!/usr/bin/env bash
# Shows the tables and figures of SuperNeurons, u-cuDNN, moDNN and cuDNN beside neap's on this machine's GPU (docs/papers.md): text,
# JSON and pictures of every item go to ${OUT:-build/gpu}/papers. Times of engines are kept in ${DATABASE:-$OUT/profile.db}, and a
# later run measures only missing ones.
#   scripts/gpu_paper.sh                    all items, and PyTorch's peaks where PyTorch is installed
#   scripts/gpu_paper.sh measured           only those that cannot be planned
#   scripts/gpu_paper.sh planned            only those that can, by the papers' GPUs; needs minutes
#   scripts/gpu_paper.sh sn-table2 uc-fig9  these
#   scripts/gpu_paper.sh pytorch            the largest batches and the deepest ResNets of PyTorch, for sn-table4 and sn-table5
#   STEPS=10 scripts/gpu_paper.sh measured  fewer training steps for each speed
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root"
papers="$out/papers"
mkdir -p "$papers"
failed=()

# items NEEDS: the names of the items that need this: planned, times or device.
items() {
  python3 -c '
import json, sys
print(*[item["item"] for item in json.load(sys.stdin)["items"] if item["needs"] == sys.argv[1]])' "$1" <"$out/paper_list.log"
}

# show NAME ARGUMENT...: one item, with its files in $papers.
show() {
  local name="$1"
  shift
  printf '\n== %s (%d s)\n' "$name" "$SECONDS"
  shown "$out/paper_$name" neap paper "$name" --out "$papers" "$@" || failed+=("$name")
}

measured_arguments=(--device cuda:0 --database "$database" --steps "${STEPS:-30}")

# The kernels of Figure 12's plans, which are chosen by measured times.
profile_alexnet() {
  local batch
  for batch in 100 150 200 250 300 350 400; do
    logged "$out/paper_profile_alexnet_$batch" neap profile alexnet --batch "$batch" --device cuda:0 --database "$database" ||
      failed+=("profile of alexnet at $batch")
  done
}

# item NAME: planned items as the papers' GPUs have them; those with speeds also on this GPU.
item() {
  case "$1" in
    sn-fig12) profile_alexnet; show "$1" "${measured_arguments[@]}" ;;
    sn-fig11 | sn-fig14 | cudnn-table4)
      show "$1"
      mv "$out/paper_$1.log" "$out/paper_$1_planned.log"
      show "$1" "${measured_arguments[@]}"
      ;;
    sn-* | modnn-* | uc-* | cudnn-*)
      if [[ " $(items planned) " == *" $1 "* ]]; then show "$1"; else show "$1" "${measured_arguments[@]}"; fi
      ;;
    *) echo "gpu_paper: no item $1" >&2 && exit 2 ;;
  esac
}

part() {
  local name
  case "$1" in
    measured) for name in $(items device) $(items times) sn-fig11 sn-fig14 cudnn-table4; do item "$name"; done ;;
    planned) for name in $(items planned); do show "$name"; done ;;
    pytorch)
      printf '\n== pytorch (%d s)\n' "$SECONDS"
      shown "$out/paper_pytorch_peaks" python3 -u scripts/pytorch_peaks.py || failed+=(pytorch)
      ;;
    *) item "$1" ;;
  esac
}

gpu_line | tee "$out/machine.log"
logged "$out/paper_list" neap paper list --json
if [ $# -eq 0 ]; then
  set -- measured planned
  if python3 -c 'import torch' 2>/dev/null; then set -- "$@" pytorch; fi
fi
for name in "$@"; do part "$name"; done
if [ ${#failed[@]} -gt 0 ]; then
  echo "gpu_paper: failed: ${failed[*]}" >&2
  exit 1
fi
