#!/usr/bin/env bash
# Compares neap with PyTorch on this machine's GPU, and measures ResNet-50's speed in a small budget (docs/results.md). Logs,
# compare.jsonl with every comparison as a line of JSON, and traces go to ${OUT:-build/gpu}.
#   scripts/gpu_bench.sh                              all parts
#   scripts/gpu_bench.sh headline                     one of them
#   scripts/gpu_bench.sh inception_v4:128:bf16        cases for compare_pytorch.py
#   PROFILE=yes scripts/gpu_bench.sh headline         neap times its kernels first
#   COMPILE_FIRST=yes scripts/gpu_bench.sh nets       PyTorch compiles all networks at the same time first
# Parts:
#   budgets      ResNet-50 at batch 128: alone, in the 6.2 GiB that PyTorch's save_on_cpu takes with a trace of one step under
#                each policy (docs/timeline.md), and beside PyTorch in fp32 and tf32
#   tight        ResNet-50 at batch 256 in ever smaller budgets, by measured times of its kernels: tight-bf16, then tight-tf32,
#                which are also parts of their own
#   fractions    five other networks in bf16 in 1/2 and 1/3 of the memory that they take unlimited, by measured times; one network
#                alone is fractions-NET, such as fractions-vgg16
#   sub-batches  AlexNet and VGG-16 at batch 4096 in bf16, unlimited and in 4 GiB
#   front        what README states: ResNet-50 at batch 256 in bf16 beside PyTorch eager and compiled, and in 1/2, 1/3 and 1/6 of
#                PyTorch's memory, by measured times; the table, and the picture in $out/front_page (scripts/front_page.py)
#   headline     ResNet-50 at batch 256 in bf16, fp16 and tf32
#   nets         VGG-16, ResNet-152, DenseNet-121 and Inception v4 at batch 128 in bf16; in fp16 neap alone
#   mobile       MobileNetV2, MobileNetV3-Large and EfficientNet-B0 at batch 256 in bf16, MobileNetV2 at batch 128 in fp32
#   memory       networks of people who run out of memory, beside PyTorch eager, compiled and with checkpoints, and within the bytes
#                of PyTorch's peaks: memory-volumes (nnU-Net, MLPerf's 3-D U-Net), memory-images (ConvNeXt-T, ViT-B/16, Swin-T),
#                memory-tokens (GPT-2), which are also parts of their own, of 30 minutes each. Not among "all parts"
#   small        ResNet-50 at batch 8, 16 and 32: small-tf32, then small-bf16, which are also parts of their own
#   options      ResNet-50 at batch 256: bf16 with other synthetic images in every step, and fp16 also by engines that add in fp16
#   gpus         ResNet-50 (256 images for each GPU) and VGG-16 (64) on one GPU and on all of this machine, beside PyTorch's
#                DistributedDataParallel: gpus-bf16, gpus-tf32, then gpus-third, ResNet-50 in bf16 in 1/3 of its memory, which
#                are also parts of their own; gpus-compile: torch.compile. Not among "all parts"
#   changing     ResNet-50 at batch 256 in bf16 with another graph in every step (16), and with another size of images (8)
#   loading      photographs read beside PyTorch's DataLoader, by number of threads, and ResNet-50 at batch 256 in bf16 trained on
#                them, beside one batch repeatedly; ends after 200 s
#   steps        one training step against PyTorch in float64: steps-bf16, steps-fp16, steps-fp32, also parts of their own;
#                steps-memory: those of volumes and tokens, and of ConvNeXt-T from ONNX. Not among "all parts"
# The comparisons of a part end after ${LIMIT:-540} s (small: twice, memory: ${LIMIT:-1800} s three times); what was not measured by then has "-" in the table.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_environment.sh"
cd "$root"
failed=()

# compare LOG ARGUMENT...: scripts/compare_pytorch.py; a failure is recorded, and the other parts still run.
compare() {
  local log="$out/$1"
  shift
  shown "$log" python3 -u scripts/compare_pytorch.py --neap "$programs/neap" --results "$out/compare.jsonl" "$@" ||
    failed+=("$(basename "$log")")
}

# speeds LOG CASES ARGUMENT...
speeds() {
  local log="$1" cases="$2" flags=()
  shift 2
  [ -z "${PROFILE:-}" ] || flags=(--profile "$database")
  [ -z "${COMPILE_FIRST:-}" ] || flags+=(--compile-first)
  compare "$log" --cases "$cases" --limit "${LIMIT:-540}" "${flags[@]}" "$@"
}

# memory CASES
memory() { LIMIT="${LIMIT:-1800}" speeds "compare_$1" "$1" --steps 20 --measurement-limit 300; }

# steps DTYPE
steps() { compare "step_check_$1" --step-check --dtype "$1"; }

steps_memory() {
  local dtype
  for dtype in bf16 fp32; do
    compare "step_check_memory_$dtype" --step-check --dtype "$dtype" --networks nnunet3d@64,unet3d@64,resenc-unet-xl@64,vit_b_16,gpt2
    compare "step_check_convnext_$dtype" --step-check --dtype "$dtype" --networks convnext_tiny --onnx
  done
}

resnet50() { neap train resnet50 --data synthetic --repeat-batch --device cuda:0 --batch 128 "$@"; }

budgets() {
  local kind dtype layout policy
  for kind in 'fp32 nchw' 'tf32 nhwc'; do
    read -r dtype layout <<<"$kind"
    shown "$out/bench_resnet50_$dtype" resnet50 --steps 60 --dtype "$dtype" --layout "$layout" || failed+=("resnet50 $dtype")
  done
  for policy in auto chen superneurons offload; do
    shown "$out/resnet50_6GiB_$policy" resnet50 --steps 30 --dtype tf32 --layout nhwc --policy "$policy" --budget 6.2GiB \
      --trace-out "$out/trace_resnet50_$policy.json" || failed+=("resnet50 $policy")
  done
  speeds compare_basic basic
}

# More than any of these trainings takes, and less than a GPU with 80 GB has.
unlimited=70GiB

# in_budgets NET BATCH DTYPE BUDGET...: trains unlimited and in each budget, by measured times, also of the batch in as many parts
# as the words of PARTS say.
in_budgets() {
  local name="$1_$2_$3" budget number
  local net=("$1" --batch "$2" --dtype "$3" --layout nhwc --device cuda:0 --database "$database")
  shift 3
  shown "$out/${name}_profile" neap profile "${net[@]}" --divisions undivided || failed+=("$name profile")
  for number in ${PARTS:-}; do
    shown "$out/${name}_profile_$number" neap profile "${net[@]}" --divisions undivided --sub-batches "$number" ||
      failed+=("$name profile in $number parts")
  done
  for budget in "$unlimited" "$@"; do
    shown "$out/${name}_$budget" neap train "${net[@]}" --data synthetic --repeat-batch --steps 60 --budget "$budget" ||
      failed+=("$name $budget")
  done
}

# In bf16 6.5 GiB, then 1/2, 1/3 and 1/6 of PyTorch's peaks: 11.0 GiB, and 20.95 GiB in tf32.
tight_bf16() { in_budgets resnet50 256 bf16 6.5GiB 5.5GiB 3.66GiB 1.83GiB; }
tight_tf32() { in_budgets resnet50 256 tf32 10.47GiB 6.98GiB 3.49GiB; }

# fractions_of NET: the unlimited arenas are 7.88, 5.22, 9.04, 4.10 and 13.59 GiB. VGG-16 has no third: one update of its first
# fully connected layer takes 1.395 GiB.
fractions_of() {
  case "$1" in
    resnet152) in_budgets resnet152 128 bf16 3.94GiB 2.63GiB ;;
    densenet121) in_budgets densenet121 128 bf16 2.61GiB 1.74GiB ;;
    inception_v4) in_budgets inception_v4 128 bf16 4.52GiB 3.01GiB ;;
    vgg16) PARTS='2 4 8 16' in_budgets vgg16 128 bf16 2.05GiB ;;
    unet) PARTS='2 4' in_budgets unet 32 bf16 6.79GiB 4.53GiB ;;
    *) echo "gpu_bench: no fractions of $1" >&2 && exit 2 ;;
  esac
}

# sub_batched NET NUMBER BUDGET: batch 4096 in NUMBER parts, by measured times of these parts.
sub_batched() {
  local net=("$1" --batch 4096 --sub-batches "$2" --dtype bf16 --layout nhwc --device cuda:0 --database "$database")
  local name="$1_4096_in_$2"
  shown "$out/${name}_profile" neap profile "${net[@]}" --divisions undivided || failed+=("$name profile")
  shown "$out/$name" neap train "${net[@]}" --data synthetic --repeat-batch --steps 20 --budget "$3" || failed+=("$name")
}

# The numbers in 4 GiB are those that auto chooses by the cost model.
sub_batches() {
  sub_batched alexnet 1 "$unlimited"
  sub_batched alexnet 8 4GiB
  sub_batched vgg16 2 "$unlimited"
  sub_batched vgg16 64 4GiB
}

# The command's speed at batch 256 with different options; the engines of fp16 are measured first.
options() {
  local fp16=(resnet50 --batch 256 --dtype fp16 --layout nhwc --device cuda:0 --database "$database")
  local train=(--data synthetic --steps 60)
  shown "$out/options_new_images" neap train resnet50 --batch 256 --dtype bf16 --layout nhwc --device cuda:0 "${train[@]}" \
    --database none || failed+=("options new images")
  shown "$out/options_profile" neap profile "${fp16[@]}" --half-accumulation --divisions undivided || failed+=("options profile")
  shown "$out/options_fp16" neap train "${fp16[@]}" "${train[@]}" --repeat-batch || failed+=("options fp16")
  shown "$out/options_half" neap train "${fp16[@]}" "${train[@]}" --repeat-batch --half-accumulation || failed+=("options half")
}

changing_graphs() { LD_LIBRARY_PATH="$NEAP_LIBRARY_PATH" "$programs/example_changing_graphs" "$@"; }
changing() { shown "$out/changing" changing_graphs cuda:0 256 || failed+=(changing); }

loading() {
  shown "$out/compare_loading" python3 -u scripts/compare_loading.py --neap "$programs/neap" \
    --bench "$programs/image_folder_bench" --results "$out/compare.jsonl" --limit "${LIMIT:-200}" || failed+=(compare_loading)
}

# scaled LOG CASES ARGUMENT...: on one GPU and on all, in ${ROUNDS:-2} rounds. Arguments are neap's. Plans know how long sums
# over the GPUs take.
scaled() {
  local log="$1" cases="$2" gpus
  shift 2
  gpus="$(gpu_count)"
  [ "$gpus" -ge 2 ] || { echo "gpu_bench: one GPU cannot be compared with several" >&2; exit 2; }
  if [ ! -e "$out/gpus_sums.log" ]; then
    shown "$out/gpus_sums" neap devices --measure-collectives "$(seq -s, -f 'cuda:%g' 0 $((gpus - 1)))" \
      --database "$database" || failed+=("sums over GPUs")
  fi
  compare "$log" --cases "$cases" --gpus "$gpus" --rounds "${ROUNDS:-2}" --limit "${LIMIT:-540}" \
    ${PROFILE:+--profile "$database"} -- --database "$database" "$@"
}

front() {
  local budget results="$out/compare.jsonl"
  PROFILE=yes speeds compare_front resnet50:256:bf16:neap+eager+compile
  for budget in $(python3 scripts/front_page.py "$results" --budgets); do
    compare "compare_front_$budget" --cases resnet50:256:bf16:neap --profile "$database" -- --budget "$budget"
  done
  shown "$out/front" python3 scripts/front_page.py "$results" --draw "$out/front_page" || failed+=(front)
}

part() {
  printf '\n== %s (%d s)\n' "$1" "$SECONDS"
  case "$1" in
    budgets) budgets ;;
    tight) for name in tight-bf16 tight-tf32; do part "$name"; done ;;
    tight-bf16) tight_bf16 ;;
    tight-tf32) tight_tf32 ;;
    fractions) for name in vgg16 unet resnet152 densenet121 inception_v4; do part "fractions-$name"; done ;;
    fractions-*) fractions_of "${1#fractions-}" ;;
    sub-batches) sub_batches ;;
    options) options ;;
    front) front ;;
    changing) changing ;;
    loading) loading ;;
    gpus) for name in gpus-bf16 gpus-tf32 gpus-third; do part "$name"; done ;;
    gpus-bf16) scaled gpus_bf16 resnet50:256:bf16:neap+eager,vgg16:64:bf16:neap+eager ;;
    gpus-tf32) scaled gpus_tf32 resnet50:256:tf32:neap+eager,vgg16:64:tf32:neap+eager ;;
    gpus-third) scaled gpus_third resnet50:256:bf16:neap --budget 3.66GiB ;;
    gpus-compile) scaled gpus_compile resnet50:256:bf16:compile,vgg16:64:bf16:compile ;;
    headline | nets | mobile | small-tf32 | small-bf16) speeds "compare_$1" "$1" ;;
    memory) for name in memory-volumes memory-images memory-tokens; do part "$name"; done ;;
    memory-volumes | memory-images | memory-tokens) memory "$1" ;;
    small) for name in small-tf32 small-bf16; do part "$name"; done ;;
    steps) for name in bf16 fp16 fp32; do steps "$name"; done ;;
    steps-memory) steps_memory ;;
    steps-*) steps "${1#steps-}" ;;
    *:*) speeds "compare_${1//[^A-Za-z0-9_+-]/_}" "$1" ;;
    *) echo "gpu_bench: no part $1" >&2 && exit 2 ;;
  esac
}

{
  gpu_line
  neap devices --measure-copies || true
  echo "commit $(git describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)"
} | tee "$out/machine.log"

[ $# -gt 0 ] || set -- front headline nets mobile small steps options changing loading budgets tight fractions sub-batches
for name in "$@"; do part "$name"; done
if [ ${#failed[@]} -gt 0 ]; then
  echo "gpu_bench: failed: ${failed[*]}" >&2
  exit 1
fi
