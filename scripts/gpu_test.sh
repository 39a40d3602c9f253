#!/usr/bin/env bash
# Runs all tests that need a GPU. Several run at the same time, in turn on the GPUs of this machine, except those that measure the
# time or the memory of a GPU. Uses build/bundle (scripts/bundle.sh) if it exists, otherwise builds. Logs go to ${OUT:-build/gpu}.
#   scripts/gpu_test.sh                 all parts
#   scripts/gpu_test.sh alone ranks     some of them
#   JOBS=4 scripts/gpu_test.sh          at most 4 at the same time, instead of half as many as there are processors
#   SANITIZE=no scripts/gpu_test.sh     skips compute-sanitizer, which cannot run on every virtual machine; without this,
#                                       a missing compute-sanitizer is a failure
# Parts:
#   cases       the GPU test cases
#   training    small training runs, also under compute-sanitizer's memcheck
#   bits        equal bits under all policies in strict mode
#   alone       the test cases that need a GPU for themselves
#   races       the small training runs under compute-sanitizer's racecheck, one after another, because it takes tens of GiB of the
#               host's memory for each, and a run that the system ends for that is "Target application returned an error"
#   ranks       two GPUs: equal bits under all policies, and one of two ranks killed
#   resnet50    ResNet-50 for 50 steps
#   python      the Python package, if python3 has it, beside PyTorch and pytest
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root" || exit 1
export LD_LIBRARY_PATH="$NEAP_LIBRARY_PATH"
jobs="${JOBS:-$((($(nproc) + 1) / 2))}"
[[ "$jobs" =~ ^[1-9][0-9]*$ ]] || { echo "gpu_test: JOBS must be a number of at least 1, not '$jobs'" >&2; exit 2; }
failed="$out/gpu_test.failed" ended="$out/gpu_test.ended"
: >"$failed"
rm -f "$ended"
# Ends what is still running, with its processes: each is in a process group of its own.
trap 'for job in $(jobs -p); do kill -- "-$job" 2>/dev/null; done' EXIT

# meaning STATUS: what an exit code says of a command; compute-sanitizer's are those of `sanitized`.
meaning() {
  case "$1" in
    9) echo 'compute-sanitizer has found faults (exit code 9)' ;;
    10) echo 'compute-sanitizer itself has failed, so that nothing is known of faults (exit code 10)' ;;
    11) echo 'the command has failed under compute-sanitizer, which has found no fault (exit code 11)' ;;
    124) echo 'not done in time (exit code 124)' ;;
    *) echo "exit code $1" ;;
  esac
}

# check NAME COMMAND...: runs COMMAND, writes its output to NAME.log and records a failure.
check() {
  local name="$1" started="$SECONDS" status=0 result=ok
  shift
  "$@" >"$out/$name.log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || { result="FAILED, $(meaning "$status")"; echo "$name" >>"$failed"; }
  echo "gpu_test: $name: $result ($((SECONDS - started)) s)"
  [ "$result" = ok ] || tail -n 40 "$out/$name.log"
  case "$status" in 130 | 143) echo "$status" >"$ended" ;; esac
}
# Ends the script if a command was stopped.
end_after_stop() { [ ! -e "$ended" ] || exit "$(cat "$ended")"; }

# The GPUs, beginning with the next one: what starts beside others starts on each in turn.
visible="${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $(($(gpu_count) - 1)))}"
IFS=, read -ra gpus <<<"${visible:-0}"
# start NAME COMMAND...: the same at the same time as others.
start() {
  while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n; done
  end_after_stop
  set -m
  CUDA_VISIBLE_DEVICES="$(IFS=,; echo "${gpus[*]}")" check "$@" &
  set +m
  gpus=("${gpus[@]:1}" "${gpus[0]}")
}

# count TESTS FLAG...: how many test cases there are.
count() { "$@" --count --no-colors | sed -n 's/.*: *\([0-9]*\)$/\1/p' | tail -1; }

gpu_cases=(--no-colors --source-file='*_gpu_test.cc')
alone_files='*/timed_*_gpu_test.cc,*/cuda_device_gpu_test.cc'  # which need the GPU for themselves
cases() {
  local tests cases case
  for tests in "$programs"/*_tests; do
    cases="$(count "$tests" "${gpu_cases[@]}" --source-file-exclude="$alone_files")"
    for case in $(seq "${cases:-0}"); do
      start "$(basename "$tests")_$case" "$tests" "${gpu_cases[@]}" --source-file-exclude="$alone_files" --first="$case" --last="$case"
    done
  done
}

# One small training run per kind of layer, with few steps, because compute-sanitizer slows them down a hundredfold.
declare -A small=(
  [lenet]="lenet --batch 8"
  [resnet20]="resnet20 --batch 4"
  [alexnet]="alexnet-torchvision --batch 2 --image 64"
  [resnet20_fp16]="resnet20 --batch 4 --dtype fp16 --layout nhwc"
  [resnet18_bf16]="resnet18 --batch 2 --image 64 --dtype bf16 --layout nhwc"
  [densenet_bf16]="densenet-bc-cifar --depth 16 --batch 4 --dtype bf16 --layout nhwc"
  [alexnet_bf16]="alexnet-torchvision --batch 2 --image 64 --dtype bf16"
  [resnet50_fp16]="resnet50 --batch 16 --image 64 --dtype fp16 --layout nhwc"
  [vgg16_parts]="vgg16 --batch 4 --image 32 --sub-batches 2 --dtype bf16 --layout nhwc"
)
sanitizer_limit_s=300
sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)"
# sanitized TOOL REPORT FAULT FLAG... -- COMMAND...: runs COMMAND under the tool, whose output becomes REPORT. Returns 9 if there is a
# line like FAULT, 10 if the tool itself has failed, 11 if COMMAND has failed, and what stopped or ended it early.
sanitized() {
  local tool="$1" report="$2" fault="$3" status=0 flags=()
  shift 3
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  timeout "$sanitizer_limit_s" "$sanitizer" --tool "$tool" "${flags[@]}" "$@" >"$report" 2>&1 || status=$?
  cat "$report"
  if grep -q -e "$fault" "$report"; then return 9; fi
  case "$status" in 124 | 130 | 143) return "$status" ;; esac
  if grep -q 'Internal Sanitizer Error' "$report"; then return 10; fi
  if [ "$status" -ne 0 ] || grep -q 'Target application returned an error' "$report"; then return 11; fi
  grep -q -E '(RACECHECK|ERROR) SUMMARY' "$report" || return 10
}
# with_report FUNCTION ARGUMENT...: FUNCTION with a file for the report as its first argument.
with_report() {
  local report status=0
  report="$(mktemp "$out/sanitizer.XXXXXX")"
  "$1" "$report" "${@:2}" || status=$?
  rm "$report"
  return "$status"
}
without_stray_accesses() {
  sanitized memcheck "$1" '^========= ERROR SUMMARY: [1-9]' -- "${@:2}"
}
# Only races in neap's kernels count, because racecheck takes the barriers of the libraries' kernels for Hopper (TMA) for races. Those
# are checked, too: where a filter (--kernel-name) leaves them out, training in 16 bits ends with an internal error of compute-sanitizer.
without_races() {
  sanitized racecheck "$1" 'access .*neap' --print-limit 0 -- "${@:2}"
}
has_sanitizer() { [ "${SANITIZE:-yes}" = yes ] && [ -n "$sanitizer" ]; }
# training_of NAME: sets `training` to the command.
training_of() {
  local net
  read -ra net <<<"${small[$1]}"
  training=("$programs/neap" train "${net[@]}" --data synthetic --device cuda:0 --steps 2)
}
training() {
  local name training
  if [ "${SANITIZE:-yes}" != yes ]; then
    echo "gpu_test: compute-sanitizer: left out, SANITIZE=$SANITIZE"
  elif [ -z "$sanitizer" ]; then
    echo "gpu_test: compute-sanitizer: NOT FOUND, so nothing was checked for stray accesses and races." >&2
    echo "gpu_test: install it (part of the CUDA toolkit), or leave it out with SANITIZE=no" >&2
    echo compute-sanitizer >>"$failed"
  fi
  for name in "${!small[@]}"; do
    training_of "$name"
    start "train_$name" "${training[@]}"
    ! has_sanitizer || start "sanitizer_${name}_memcheck" with_report without_stray_accesses "${training[@]}"
  done
}
races() {
  local name training
  has_sanitizer || return 0
  # racecheck takes more of the host's memory with every kernel: more than 128 GiB for two steps of ResNet-50.
  small[resnet50_fp16]="resnet --blocks 1,1,1,1 --batch 16 --image 64 --dtype fp16 --layout nhwc"
  for name in "${!small[@]}"; do
    training_of "$name"
    check "sanitizer_${name}_racecheck" with_report without_races "${training[@]}"
    end_after_stop
  done
}

# strict_bits: with --strict, weights are bit-identical under every policy and budget; with two GPUs that can reach each other,
# also if the second one holds the copies.
#   strict_bits NET FLAG...
strict_bits() {
  local plan plans peers=() folder
  folder="$(mktemp -d "$out/strict.XXXXXX")"
  local reference="$folder/reference.safetensors" weights="$folder/weights.safetensors"
  local training=("$programs/neap" train "$@" --data synthetic --device cuda:0 --steps 20 --strict)
  if "$programs/neap" devices | grep -q 'possible --peer: cuda:1'; then
    peers=('vdnn-all --peer cuda:1 --peer-budget 20MiB' 'superneurons --budget 25% --peer cuda:1 --peer-budget 4GiB')
  else
    echo "no peer for cuda:0: copies on a peer are left out"
  fi
  "${training[@]}" --policy keep-all --placement first-fit --weights-out "$reference" || return
  for plans in liveness offload 'tensor-cache --budget 25%' 'tensor-cache --budget 25% --offload-params' recompute-speed \
    recompute-memory cost-aware 'cost-aware --offload-params' 'superneurons --budget 25%' 'superneurons --budget 20%' \
    'auto --budget 50%' 'auto --budget 25%' 'auto --budget 25% --offload-params' vdnn-all vdnn-conv chen "${peers[@]}"; do
    read -ra plan <<<"$plans"
    "${training[@]}" --policy "${plan[@]}" --weights-out "$weights" || return
    cmp "$reference" "$weights" || { echo "policy ${plan[*]}: the bits differ"; return 1; }
  done
  rm -r "$folder"
}
bits() {
  local small_net
  small_net=(resnet20 --batch 64)
  start strict_bits strict_bits "${small_net[@]}"
  start strict_bits_tf32 strict_bits "${small_net[@]}" --dtype tf32 --layout nhwc
  start strict_bits_bf16 strict_bits "${small_net[@]}" --dtype bf16 --layout nhwc
  start strict_bits_fp16 strict_bits "${small_net[@]}" --dtype fp16 --layout nhwc
  # With batch norms that are folded into convolutions.
  start strict_bits_folded_bf16 strict_bits resnet50 --batch 128 --image 128 --dtype bf16 --layout nhwc
  start strict_bits_folded_fp16 strict_bits resnet50 --batch 128 --image 128 --dtype fp16 --layout nhwc
}

alone() {
  local tests cases
  for tests in "$programs"/*_tests; do
    cases="$(count "$tests" --source-file="$alone_files")"
    [ "${cases:-0}" -eq 0 ] || check "$(basename "$tests")_alone" "$tests" --no-colors --source-file="$alone_files"
    end_after_stop
  done
}

# killed ROUND: of two ranks that torchrun has started, one is killed. The other ends soon, the checkpoint is whole, and training
# goes on from it.
killed() {
  local file="$out/killed_$1.safetensors" torchrun ranks begun step status=0
  local training=("$programs/neap" train resnet20 --data synthetic --batch 64 --log-every 1000)
  rm -f "$file"
  python3 -m torch.distributed.run --standalone --nproc-per-node 2 --no-python "${training[@]}" --device cuda:local \
    --steps 1000000 --save "$file" --save-every 50 --collective-timeout 20 &
  torchrun=$!
  until [ -e "$file" ] || ! kill -0 "$torchrun" 2>/dev/null; do sleep 0.2; done
  sleep "0.$1"
  read -ra ranks <<<"$(pgrep -P "$torchrun" | tr '\n' ' ')"
  kill -9 "${ranks[$(($1 % ${#ranks[@]}))]}"
  begun="$SECONDS"
  wait "$torchrun" || status=$?
  [ "$status" -ne 0 ] || { echo "torchrun has not failed"; return 1; }
  [ $((SECONDS - begun)) -lt 60 ] || { echo "the other rank ended after $((SECONDS - begun)) s"; return 1; }
  step="$(head -c 100000 "$file" | grep -aoE '"neap.step": *"[0-9]+"' | grep -oE '[0-9]+')"
  "${training[@]}" --device cuda:0,cuda:1 --resume "$file" --steps $((step + 2))
}
# rank_bits FLAG...: with --strict, two ranks have the same weights under every policy and budget, if each lends the other
# memory, and if the optimizer is sharded; every rank's peak is the predicted one.
rank_bits() {
  local folder plans plan
  folder="$(mktemp -d "$out/ranks.XXXXXX")"
  local training=("$programs/neap" train resnet20 --batch 64 --data synthetic --device cuda:0,cuda:1 --steps 20 --strict "$@")
  "${training[@]}" --policy keep-all --weights-out "$folder/reference.safetensors" || return
  for plans in liveness 'auto --budget 40%,25%' 'superneurons --budget 25%' chen 'vdnn-all --peer cuda:1,cuda:0 --peer-budget 20MiB' \
    'liveness --shard-optimizer' 'auto --budget 30% --shard-optimizer'; do
    read -ra plan <<<"$plans"
    "${training[@]}" --policy "${plan[@]}" --weights-out "$folder/weights.safetensors" >"$folder/log" || return
    cat "$folder/log"
    ! grep -q -e 'NOT EQUAL' -e 'NOT AS PREDICTED' "$folder/log" || { echo "policy ${plan[*]}: other peaks"; return 1; }
    cmp "$folder/reference.safetensors" "$folder/weights.safetensors" || { echo "policy ${plan[*]}: other bits"; return 1; }
  done
  rm -r "$folder"
}
ranks() {
  local round
  if [ "$(gpu_count)" -ge 2 ]; then
    check rank_bits rank_bits
    check rank_bits_bf16 rank_bits --dtype bf16 --layout nhwc
    end_after_stop
  else
    echo "gpu_test: rank_bits: left out, there are no two GPUs"
  fi
  if [ "$(gpu_count)" -ge 2 ] && python3 -c 'import torch.distributed.run' 2>/dev/null; then
    for round in 1 2 3; do
      check "killed_rank_$round" killed "$round"
      end_after_stop
    done
  else
    echo "gpu_test: killed_rank: left out, there are no two GPUs or no torchrun"
  fi
}

resnet50() {
  local kind dtype layout
  for kind in 'fp32 nchw' 'tf32 nhwc' 'bf16 nhwc'; do
    read -r dtype layout <<<"$kind"
    check "resnet50_$dtype" "$programs/neap" train resnet50 --data synthetic --device cuda:0 --batch 128 --steps 50 \
      --dtype "$dtype" --layout "$layout" --budget 16GiB
    end_after_stop
    tail -n 6 "$out/resnet50_$dtype.log"
  done
}

python() {
  if python3 -c 'import neap, pytest, torch' 2>/dev/null; then
    NEAP_TREE="$root" NEAP_COMMAND="$programs/neap" \
      check python python3 -B -m pytest -p no:cacheprovider -q -rs tests/apps/python/gpu_tensor_test.py
  else
    echo "gpu_test: python: left out, python3 lacks neap, PyTorch or pytest"
  fi
}

parts=(cases training bits alone races ranks resnet50 python)
[ $# -gt 0 ] || set -- "${parts[@]}"
for name in "$@"; do
  [[ " ${parts[*]} " == *" $name "* ]] || { echo "gpu_test: no part $name" >&2; exit 2; }
done
for name in "$@"; do
  case "$name" in
    alone | races | ranks | resnet50 | python)
      wait
      end_after_stop
      ;;
  esac
  "$name"
done
wait
end_after_stop

if [ -s "$failed" ]; then
  echo "gpu_test: failed: $(sort "$failed" | tr '\n' ' ')(logs in $out)"
  exit 1
fi
echo "gpu_test: all passed (logs in $out)"
