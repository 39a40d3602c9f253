#!/usr/bin/env bash
# All that is tested on a GPU: the GPU test cases, compute-sanitizer on small training runs, equal bits in strict mode,
# ResNet-50 for 50 steps.
# Uses build/bundle (scripts/bundle.sh) if there is one, else builds. Logs go to ${OUT:-build/gpu}.
#   SANITIZE=no scripts/gpu_test.sh     leaves compute-sanitizer out, which not every virtual machine lets run; without
#                                       this, it is a failure if there is none
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root" || exit 1
export LD_LIBRARY_PATH="$NEAP_LIBRARY_PATH"
failed=()

# check NAME COMMAND...: runs it, keeps its output in NAME.log, remembers a failure.
check() {
  local name="$1" started="$SECONDS" result=ok
  shift
  "$@" >"$out/$name.log" 2>&1 || { result="FAILED, exit code $?"; failed+=("$name"); }
  echo "gpu_test: $name: $result ($((SECONDS - started)) s)"
  [ "$result" = ok ] || tail -n 40 "$out/$name.log"
}

for tests in "$programs"/*_tests; do
  name="$(basename "$tests")"
  cases="$("$tests" --source-file='*_gpu_test.cc' --count --no-colors | sed -n 's/.*: *\([0-9]*\)$/\1/p' | tail -1)"
  if [ "${cases:-0}" -gt 0 ]; then
    check "$name" "$tests" --source-file='*_gpu_test.cc' --no-colors
    tail -n 3 "$out/$name.log"
  fi
done

# One small training run per kind of layer: few steps, for compute-sanitizer slows them down a hundredfold.
declare -A small=(
  [lenet]="lenet --batch 8"
  [resnet20]="resnet20 --batch 4"
  [alexnet]="alexnet-torchvision --batch 2 --image 64"
)
sanitizer_limit_s=300
sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)"
if [ "${SANITIZE:-yes}" != yes ]; then
  echo "gpu_test: compute-sanitizer: left out, SANITIZE=$SANITIZE"
elif [ -z "$sanitizer" ]; then
  echo "gpu_test: compute-sanitizer: NOT FOUND, so nothing was checked for stray accesses and races." >&2
  echo "gpu_test: install it (part of the CUDA toolkit), or leave it out with SANITIZE=no" >&2
  failed+=(compute-sanitizer)
fi
for name in lenet resnet20 alexnet; do
  read -ra net <<<"${small[$name]}"
  training=("$programs/neap" train "${net[@]}" --data synthetic --device cuda:0 --steps 2)
  check "train_$name" "${training[@]}"
  if [ "${SANITIZE:-yes}" != yes ] || [ -z "$sanitizer" ]; then continue; fi
  for tool in memcheck racecheck; do
    check "sanitizer_${name}_$tool" timeout "$sanitizer_limit_s" \
      "$sanitizer" --tool "$tool" --error-exitcode 9 "${training[@]}"
  done
done

# strict_bits: with --strict, weights are the same to the bit whatever is kept in how many bytes.
strict_bits() {
  local kept plan
  for plan in keep-all liveness; do
    "$programs/neap" train resnet20 --data synthetic --device cuda:0 --batch 64 --steps 20 --strict --policy "$plan" \
      --placement "$([ "$plan" = liveness ] && echo offline || echo first-fit)" \
      --weights-out "$out/strict_$plan.safetensors" || return 1
  done
  kept="$out/strict_keep-all.safetensors"
  cmp "$kept" "$out/strict_liveness.safetensors" && rm "$kept" "$out/strict_liveness.safetensors"
}
check strict_bits strict_bits

for kind in 'fp32 nchw' 'tf32 nhwc'; do
  read -r dtype layout <<<"$kind"
  check "resnet50_$dtype" "$programs/neap" train resnet50 --data synthetic --device cuda:0 --batch 128 --steps 50 \
    --dtype "$dtype" --layout "$layout" --budget 16GiB
  tail -n 6 "$out/resnet50_$dtype.log"
done

if [ "${#failed[@]}" -gt 0 ]; then
  echo "gpu_test: failed: ${failed[*]} (logs in $out)"
  exit 1
fi
echo "gpu_test: all passed (logs in $out)"
