// The optimizer's steps: the update of parameters, and what is known of all gradients before.
#include "neap/core/step/optimizer.h"

#include <algorithm>
#include <cmath>

#include "neap/core/step/loss_scale.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

// 1 - beta^t, without cancellation.
float BiasCorrection(float beta, double t) {
  return static_cast<float>(-std::expm1(t * std::log(static_cast<double>(beta))));
}

// The values that all parameters of an update share.
struct Rule {
  Rule(const LoopArgs& args, const LossScale* scale) : optimizer(args.signature.optimizer) {
    const IterationScalars& scalars = *args.Get<IterationScalars>(Iteration());
    learning_rate = scalars.learning_rate;
    if (scale != nullptr) gradient_scale = 1.0F / scale->scale;
    if (const float* const squares = args.Find<float>(GradientNorm())) {
      const float norm = std::sqrt(*squares) * gradient_scale;
      // Written so that a norm that is NaN makes every parameter NaN.
      const float factor = optimizer.clip_norm / (norm + 1e-6F);
      if (!(factor >= 1)) gradient_scale *= factor;
    }
    const double skipped = scale == nullptr ? 0.0 : static_cast<double>(scale->skipped);
    updates = static_cast<double>(scalars.step) + 1 - skipped;
  }

  const Optimizer& optimizer;
  float learning_rate = 0;
  float gradient_scale = 1;  // by which gradients are multiplied
  double updates = 0;        // so far, with this one
};

// The tensors of one parameter; null if it has none.
struct Updated {
  int64_t elements = 0;
  const float* gradient = nullptr;
  float* param = nullptr;  // the fp32 one
  float* moment = nullptr;
  float* second_moment = nullptr;
  float* average = nullptr;
};

void Sgd(const Rule& rule, const Updated& tensors) {
  const Optimizer& optimizer = rule.optimizer;
  for (int64_t i = 0; i < tensors.elements; ++i) {
    const float gradient =
        tensors.gradient[i] * rule.gradient_scale + optimizer.weight_decay * tensors.param[i];
    float step = gradient;
    if (tensors.moment != nullptr) {
      step += optimizer.momentum * tensors.moment[i];
      tensors.moment[i] = step;
      if (optimizer.nesterov) step = gradient + optimizer.momentum * step;
    }
    tensors.param[i] -= rule.learning_rate * step;
  }
}

void AdamW(const Rule& rule, const Updated& tensors) {
  const Optimizer& optimizer = rule.optimizer;
  const float decay = rule.learning_rate * optimizer.weight_decay;
  const float rate = rule.learning_rate / BiasCorrection(optimizer.beta1, rule.updates);
  const float root = std::sqrt(BiasCorrection(optimizer.beta2, rule.updates));
  for (int64_t i = 0; i < tensors.elements; ++i) {
    const float gradient = tensors.gradient[i] * rule.gradient_scale;
    float& m = tensors.moment[i];
    float& v = tensors.second_moment[i];
    m += (1 - optimizer.beta1) * (gradient - m);
    v = optimizer.beta2 * v + (1 - optimizer.beta2) * gradient * gradient;
    tensors.param[i] -= decay * tensors.param[i];
    tensors.param[i] -= rate * m / (std::sqrt(v) / root + optimizer.epsilon);
  }
}

void UpdateParam(const Rule& rule, const Updated& tensors) {
  (rule.optimizer.rule == Optimizer::Rule::kAdamW ? AdamW : Sgd)(rule, tensors);
  if (tensors.average == nullptr) return;
  const float weight = 1 - rule.optimizer.average_decay;
  for (int64_t i = 0; i < tensors.elements; ++i)
    tensors.average[i] += weight * (tensors.param[i] - tensors.average[i]);
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
  const Rule rule(args, scale);
  for (int i = 0; args.signature.Has(Param(i)); ++i) {
    float* const param = args.Get<float>(Param(i));
    float* const master = args.Find<float>(Master(i));
    const int64_t elements = args.signature.Spec(Param(i)).elements();
    if (!skipped) {
      UpdateParam(rule, {.elements = elements,
                         .gradient = args.Get<float>(ParamGrad(i)),
                         .param = master == nullptr ? param : master,
                         .moment = args.Find<float>(Moment(i)),
                         .second_moment = args.Find<float>(SecondMoment(i)),
                         .average = args.Find<float>(Average(i))});
    }
    if (master != nullptr) std::copy_n(master, elements, param);
  }
}

// The tensors' sums of squares are added one after another, whichever step they belong to.
void AddSquares(const LoopArgs& args, float& sum) {
  if (!args.signature.Accumulates(GradientNorm())) sum = 0;
  for (int i = 0; args.signature.Has(ParamGrad(i)); ++i) {
    const float* const gradient = args.Get<float>(ParamGrad(i));
    const int64_t elements = args.signature.Spec(ParamGrad(i)).elements();
    double squares = 0;
    for (int64_t k = 0; k < elements; ++k)
      squares += static_cast<double>(gradient[k]) * static_cast<double>(gradient[k]);
    sum += static_cast<float>(squares);
  }
}

void FindOverflow(const LoopArgs& args, LossScale& scale) {
  for (int i = 0; args.signature.Has(ParamGrad(i)); ++i) {
    const float* const gradient = args.Get<float>(ParamGrad(i));
    const int64_t elements = args.signature.Spec(ParamGrad(i)).elements();
    const bool finite = std::all_of(gradient, gradient + elements,
                                    [](float value) { return std::isfinite(value); });
    if (!finite) scale.overflow = 1;
  }
}

void Check(const LoopArgs& args) {
  if (float* const squares = args.Find<float>(GradientNorm())) AddSquares(args, *squares);
  if (LossScale* const scale = args.Find<LossScale>(LossScaling())) FindOverflow(args, *scale);
}

void UpdateScale(const LoopArgs& args) { args.Get<LossScale>(LossScaling())->Advance(); }

}  // namespace

absl::StatusOr<Candidates> UpdateParams(const StepSignature& signature) {
  return OwnLoop(signature, Update);
}
absl::StatusOr<Candidates> CheckGradients(const StepSignature& signature) {
  return OwnLoop(signature, Check);
}
absl::StatusOr<Candidates> UpdateLossScale(const StepSignature& signature) {
  return OwnLoop(signature, UpdateScale);
}

}  // namespace neap::cpu
