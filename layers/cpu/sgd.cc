// The optimizer's steps: the update of parameters, and those of a scaled loss.
#include "neap/core/step/sgd.h"

#include <algorithm>
#include <cmath>

#include "neap/core/step/loss_scale.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

// What all parameters of an update share.
struct Rates {
  Sgd sgd;
  float learning_rate;
  float unscale;  // by which gradients are multiplied
};

void UpdateParam(const Rates& rates, int64_t elements, const float* gradient, float* param,
                 float* velocity) {
  for (int64_t i = 0; i < elements; ++i) {
    float step = gradient[i] * rates.unscale + rates.sgd.weight_decay * param[i];
    if (velocity != nullptr) {
      step += rates.sgd.momentum * velocity[i];
      velocity[i] = step;
    }
    param[i] -= rates.learning_rate * step;
  }
}

// The states, which forward has changed, become those of their backups if the step is skipped.
void KeepOrRestore(const LoopArgs& args, bool skipped) {
  for (const OperandSpec& operand : args.signature.operands) {
    if (operand.operand.slot != Slot::kState) continue;
    float* const state = args.Get<float>(operand.operand);
    float* const backup = args.Get<float>(Backup(operand.operand.index));
    const int64_t count = operand.tensor.elements();
    skipped ? std::copy_n(backup, count, state) : std::copy_n(state, count, backup);
  }
}

void Update(const LoopArgs& args) {
  const LossScale* const scale = args.Find<LossScale>(LossScaling());
  const bool skipped = scale != nullptr && scale->overflow != 0;
  KeepOrRestore(args, skipped);
  const Rates rates = {.sgd = args.signature.sgd,
                       .learning_rate = args.Get<IterationScalars>(Iteration())->learning_rate,
                       .unscale = scale == nullptr ? 1.0F : 1.0F / scale->scale};
  for (int i = 0; args.signature.Has(Param(i)); ++i) {
    float* const param = args.Get<float>(Param(i));
    float* const master = args.Find<float>(Master(i));
    const int64_t elements = args.signature.Spec(Param(i)).elements();
    if (!skipped) {
      UpdateParam(rates, elements, args.Get<float>(ParamGrad(i)),
                  master == nullptr ? param : master, args.Find<float>(Optimizer(i)));
    }
    if (master != nullptr) std::copy_n(master, elements, param);
  }
}

void Check(const LoopArgs& args) {
  LossScale& scale = *args.Get<LossScale>(LossScaling());
  for (int i = 0; args.signature.Has(ParamGrad(i)); ++i) {
    const float* const gradient = args.Get<float>(ParamGrad(i));
    const int64_t elements = args.signature.Spec(ParamGrad(i)).elements();
    const bool finite = std::all_of(gradient, gradient + elements,
                                    [](float value) { return std::isfinite(value); });
    if (!finite) scale.overflow = 1;
  }
}

void UpdateScale(const LoopArgs& args) { args.Get<LossScale>(LossScaling())->Advance(); }

}  // namespace

absl::StatusOr<Candidates> SgdUpdate(const StepSignature& signature) {
  return OwnLoop(signature, Update);
}
absl::StatusOr<Candidates> CheckGradients(const StepSignature& signature) {
  return OwnLoop(signature, Check);
}
absl::StatusOr<Candidates> UpdateLossScale(const StepSignature& signature) {
  return OwnLoop(signature, UpdateScale);
}

}  // namespace neap::cpu
