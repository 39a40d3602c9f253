#include "apps/cli/flag_names.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace neap::apps {
namespace {

constexpr std::array<const char*, 8> kHeadings = {
    "network",  "data",          "memory and plan", "device and kernels",
    "training", "several ranks", "files",           "other flags"};

// The flags' names, by section. A name with a placeholder is that flag only.
constexpr std::array<const char*, kHeadings.size() - 1> kNames = {
    "batch batches image channels classes dtype layout no-fusion depth blocks growth-rate dropout "
    "aux-logits loss label-smoothing compare-batch keep",
    "data split=NAME val batch-file sizes repeat-batch augment color-jitter allow-empty "
    "exif-orientation workers skip-bad eval images top",
    "budget budgets host-budget peer-budget policy placement sub-batches batch-norm-in-parts evict "
    "no-in-place offload-params strict plan accounting",
    "device peer database no-installed-times measure divisions nondeterministic half-accumulation "
    "workspace-limit engines workspace-rule no-cuda-graph samples again retry-failed limits",
    "steps epochs accumulate lr lr-schedule lr-period lr-factor lr-min warmup warmup-start "
    "optimizer momentum nesterov beta1 beta2 epsilon weight-decay clip-norm ema seed run",
    "split=RULE ranks link hop sync-batch-norm shard-optimizer collective-timeout",
    "save save-every save-best resume weights weights-in weights-out weights-dtype onnx out output "
    "log-dir plan-out trace-out report csv merge"};

struct Synonym {
  const char* given;
  const char* flags;  // the first that the subcommand has
};

constexpr Synonym kSynonyms[] = {
    {"batch-size", "batch batches"},
    {"bs", "batch batches"},
    {"train-batch-size", "batch"},
    {"micro-batch", "sub-batches"},
    {"micro-batches", "sub-batches"},
    {"accumulate", "sub-batches"},
    {"accumulation-steps", "accumulate sub-batches"},
    {"gradient-accumulation-steps", "accumulate sub-batches"},
    {"learning-rate", "lr"},
    {"lr-scheduler", "lr-schedule"},
    {"scheduler", "lr-schedule"},
    {"lr-gamma", "lr-factor"},
    {"gamma", "lr-factor"},
    {"lr-step-size", "lr-period"},
    {"min-lr", "lr-min"},
    {"warmup-steps", "warmup"},
    {"lr-warmup-epochs", "warmup"},
    {"optim", "optimizer"},
    {"opt", "optimizer"},
    {"wd", "weight-decay"},
    {"betas", "beta1"},
    {"eps", "epsilon"},
    {"clip", "clip-norm"},
    {"clip-grad", "clip-norm"},
    {"clip-grad-norm", "clip-norm"},
    {"max-grad-norm", "clip-norm"},
    {"model-ema", "ema"},
    {"ema-decay", "ema"},
    {"num-epochs", "epochs"},
    {"max-epochs", "epochs"},
    {"iterations", "steps"},
    {"iters", "steps"},
    {"max-steps", "steps"},
    {"num-steps", "steps"},
    {"random-seed", "seed"},
    {"dataset", "data"},
    {"data-path", "data"},
    {"data-dir", "data"},
    {"train-data", "data"},
    {"train-dir", "data"},
    {"train", "data"},
    {"validation", "val"},
    {"val-data", "val"},
    {"val-dir", "val"},
    {"evaluate", "eval"},
    {"test", "eval"},
    {"test-only", "eval"},
    {"num-workers", "workers"},
    {"threads", "workers"},
    {"img-size", "image"},
    {"image-size", "image"},
    {"imgsz", "image"},
    {"input-size", "image"},
    {"resolution", "image"},
    {"in-channels", "channels"},
    {"num-classes", "classes"},
    {"drop-rate", "dropout"},
    {"criterion", "loss"},
    {"smoothing", "label-smoothing"},
    {"precision", "dtype"},
    {"amp", "dtype"},
    {"half", "dtype"},
    {"fp16", "dtype"},
    {"bf16", "dtype"},
    {"tf32", "dtype"},
    {"channels-last", "layout"},
    {"memory-format", "layout"},
    {"memory", "budget budgets"},
    {"mem", "budget budgets"},
    {"max-memory", "budget budgets"},
    {"memory-limit", "budget budgets"},
    {"gpu-memory", "budget budgets"},
    {"host-memory", "host-budget"},
    {"gpu", "device"},
    {"gpus", "device"},
    {"cuda", "device"},
    {"cpu", "device"},
    {"sync-bn", "sync-batch-norm"},
    {"deterministic", "strict"},
    {"checkpoint", "weights save"},
    {"ckpt", "weights resume save"},
    {"load", "weights resume"},
    {"model", "weights weights-in"},
    {"pretrained", "weights weights-in"},
    {"output", "out onnx save"},
    {"output-dir", "save"},
    {"logdir", "log-dir"},
    {"tensorboard", "log-dir"},
    {"print-freq", "log-every"},
    {"save-freq", "save-every"},
    {"topk", "top"},
};

}  // namespace

absl::Span<const char* const> Sections() { return kHeadings; }

size_t SectionOf(const std::string& name, const std::string& placeholder) {
  const std::string with_placeholder = absl::StrCat(name, "=", placeholder);
  for (size_t section = 0; section < kNames.size(); ++section) {
    for (const absl::string_view listed : absl::StrSplit(kNames[section], ' ')) {
      if (listed == name || listed == with_placeholder) return section;
    }
  }
  return kNames.size();
}

std::string MeantBy(const std::string& given, const std::vector<std::string>& known) {
  const std::string spelled = absl::StrReplaceAll(given, {{"_", "-"}});
  const auto is_known = [&](absl::string_view name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  if (spelled != given && is_known(spelled)) return spelled;
  const auto* const synonym =
      std::find_if(std::begin(kSynonyms), std::end(kSynonyms),
                   [&](const Synonym& listed) { return listed.given == spelled; });
  if (synonym == std::end(kSynonyms)) return "";
  for (const absl::string_view flag : absl::StrSplit(synonym->flags, ' ')) {
    if (is_known(flag)) return std::string(flag);
  }
  return "";
}

}  // namespace neap::apps
