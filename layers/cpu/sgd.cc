#include "neap/core/step/sgd.h"

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

void UpdateParam(const Sgd& sgd, float learning_rate, int64_t elements, const float* gradient,
                 float* param, float* velocity) {
  for (int64_t i = 0; i < elements; ++i) {
    float step = gradient[i] + sgd.weight_decay * param[i];
    if (velocity != nullptr) {
      step += sgd.momentum * velocity[i];
      velocity[i] = step;
    }
    param[i] -= learning_rate * step;
  }
}

void Update(const LoopArgs& args) {
  const IterationScalars iteration = *args.Get<IterationScalars>(Iteration());
  for (int i = 0; args.signature.Has(Param(i)); ++i) {
    UpdateParam(args.signature.sgd, iteration.learning_rate,
                args.signature.Spec(Param(i)).elements(), args.Get<float>(ParamGrad(i)),
                args.Get<float>(Param(i)), args.Find<float>(Optimizer(i)));
  }
}

}  // namespace

absl::StatusOr<Candidates> SgdUpdate(const StepSignature& signature) {
  return OwnLoop(signature, Update);
}

}  // namespace neap::cpu
