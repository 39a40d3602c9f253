#include "apps/cli/optimizer_flags.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "apps/cli/outcome.h"

namespace neap::apps {
namespace {

constexpr double kMaxFloat = std::numeric_limits<float>::max();
constexpr double kBelowOne = 0.99999994;  // the largest float below 1

}  // namespace

void OptimizerFlags::AddTo(FlagSet& flags) {
  AddMemoryTo(flags);
  flags.Add("nesterov", "SGD with Nesterov's momentum", &values_.nesterov);
  flags.Add("beta1", "X", "decay of AdamW's mean of gradients", Real(0, kBelowOne, &values_.beta1));
  flags.Add("beta2", "X", "decay of AdamW's mean of squares of gradients",
            Real(0, kBelowOne, &values_.beta2));
  flags.Add("epsilon", "X", "what AdamW adds to the root of that mean",
            Real(std::numeric_limits<float>::min(), kMaxFloat, &values_.epsilon));
  flags.Add("weight-decay", "X", "weight decay; that of AdamW is apart from the gradient",
            Real(0, 1, &values_.weight_decay));
}

void OptimizerFlags::AddMemoryTo(FlagSet& flags) {
  flags.Add("optimizer", "NAME", "how parameters are updated", OneOf({"sgd", "adamw"}, &rule));
  flags.Add("momentum", "X", "momentum of SGD", Real(0, 1, &values_.momentum));
  flags.Add("clip-norm", "X", "scale gradients down so that their norm is at most X (0: do not)",
            Real(0, kMaxFloat, &values_.clip_norm));
  flags.Add("ema", "X", "keep moving averages of the weights with this decay (0: do not)",
            Real(0, kBelowOne, &values_.average_decay));
}

absl::Status OptimizerFlags::Check(const FlagSet& flags) const {
  const bool is_sgd = rule == "sgd";
  for (const char* flag : {"momentum", "nesterov"}) {
    if (!is_sgd && flags.Given(flag))
      return BadUsage(absl::StrCat("--", flag, " needs --optimizer sgd"));
  }
  for (const char* flag : {"beta1", "beta2", "epsilon"}) {
    if (is_sgd && flags.Given(flag))
      return BadUsage(absl::StrCat("--", flag, " needs --optimizer adamw"));
  }
  if (values_.nesterov && values_.momentum == 0) return BadUsage("--nesterov needs --momentum");
  return absl::OkStatus();
}

Optimizer OptimizerFlags::Get() const {
  Optimizer optimizer = values_;
  optimizer.rule = rule == "adamw" ? Optimizer::Rule::kAdamW : Optimizer::Rule::kSgd;
  return optimizer;
}

void OptimizerFlags::Set(const Optimizer& optimizer) {
  values_ = optimizer;
  rule = optimizer.rule == Optimizer::Rule::kAdamW ? "adamw" : "sgd";
}

}  // namespace neap::apps
