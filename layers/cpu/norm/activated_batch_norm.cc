#include "neap/layers/fusion/activated_batch_norm.h"

#include <variant>

#include "neap/layers/cpu/activation_functions.h"
#include "neap/layers/cpu/norm/batch_norm_loops.h"

namespace neap::cpu {
namespace {

using namespace operands;

const ActivatedBatchNorm& LayerOf(const LoopArgs& args) {
  return *args.signature.layer.As<ActivatedBatchNorm>();
}

Norm NormOf(const LoopArgs& args) {
  return {LayerOf(args).norm, 0, 0, WholeOf(args.signature.Spec(X()))};
}

ClipFunction FunctionFor(const Clip& layer, DType dtype) { return {layer, dtype}; }
HardSwishFunction FunctionFor(const HardSwish& layer, DType dtype) { return {layer, dtype}; }
SiluFunction FunctionFor(const Silu& layer, DType dtype) { return {layer, dtype}; }

// Calls use(function, round), where `round` gives the value that a tensor of the layer would hold.
template <typename Use>
void WithFunction(const LoopArgs& args, const Use& use) {
  const DType dtype = args.signature.Spec(X()).dtype;
  std::visit(
      [&](const auto& layer) {
        RoundAs(dtype, [&](auto round) { use(FunctionFor(layer, dtype), round); });
      },
      LayerOf(args).activation);
}

void Apply(const LoopArgs& args, const Norm& norm, const Normalisation& normalised) {
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  WithFunction(args, [&](auto function, auto round) {
    ForEachElement(norm.part, [=](int64_t i, int64_t c, int64_t) {
      y[i] = function.Value(round(normalised(x[i], c)));
    });
  });
}

void TrainingForward(const LoopArgs& args) {
  const Norm norm = NormOf(args);
  Apply(args, norm, BatchNormalisation(args, norm));
}

void InferenceForward(const LoopArgs& args) {
  const Norm norm = NormOf(args);
  Apply(args, norm, RunningNormalisation(args, norm, args.Workspace<float>()));
}

void Backward(const LoopArgs& args) {
  const Norm norm = NormOf(args);
  const float* const x = args.Get<float>(X());
  const float* const dy = args.Get<float>(Dy());
  const Normalisation normalised = NormalisationOf(args, norm);
  WithFunction(args, [&](auto function, auto round) {
    const auto dz = [=](int64_t i, int64_t c, int64_t) {
      return round(function.Gradient(round(normalised(x[i], c)), dy[i]));
    };
    BackwardFrom(args, norm, dz, args.Get<float>(Dx()));
  });
}

}  // namespace

absl::StatusOr<Candidates> ActivatedBatchNormForward(const StepSignature& signature) {
  const int64_t channels = signature.Spec(X()).shape.c();
  if (signature.mode == Mode::kInference)
    return OwnLoop(signature, InferenceForward, NormWorkspaceBytes(channels).inference);
  if (signature.rerun) return OwnLoop(signature, TrainingForward);
  return OwnLoop(signature, TrainingForward, NormWorkspaceBytes(channels).training);
}

absl::StatusOr<Candidates> ActivatedBatchNormBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward, NormWorkspaceBytes(signature.Spec(X()).shape.c()).backward);
}

}  // namespace neap::cpu
