// Batch norm, alone and with its neighbours.
#include "neap/layers/fusion/norm_pass.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>
#include <vector>

#include "neap/layers/cpu/activation_functions.h"
#include "neap/layers/cpu/norm/batch_norm_loops.h"
#include "neap/layers/cpu/norm/relu_mask.h"
#include "neap/layers/cpu/pooling/global_average_pool.h"
#include "neap/layers/cpu/pooling/max_pool.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The first batch norm: of input 0, or of every input of a concatenation.
std::vector<Norm> FirstNorm(const StepSignature& signature) {
  const NormPass layer = NormPassOf(signature.layer);
  ChannelPart part = {{}, 0, NormalisedSpec(signature).shape.c()};
  std::vector<Norm> norms;
  for (int i = 0; part.first < part.all; ++i) {
    part.rows = ChannelRowsOf(signature.Spec(X(i)));
    norms.push_back({layer.norm, i, 0, part, part.first});
    part.first += part.rows.channels;
  }
  return norms;
}
Norm SecondNorm(const StepSignature& signature) {
  const NormPass layer = NormPassOf(signature.layer);
  return {*layer.addend_norm(), 1, 2, WholeOf(signature.Spec(X(1)))};
}

ClipFunction FunctionFor(const Clip& layer, DType dtype) { return {layer, dtype}; }
HardSwishFunction FunctionFor(const HardSwish& layer, DType dtype) { return {layer, dtype}; }
SiluFunction FunctionFor(const Silu& layer, DType dtype) { return {layer, dtype}; }

// Calls use(function) for an activation other than a ReLU. Returns whether the layer has one.
template <typename Use>
bool WithActivation(const NormPass& layer, DType dtype, const Use& use) {
  return std::visit(
      [&](const auto& activation) {
        if constexpr (requires { FunctionFor(activation, dtype); }) {
          use(FunctionFor(activation, dtype));
          return true;
        } else {
          return false;
        }
      },
      layer.activation);
}

// Writes the means of sum(i, c), and the mask of the sums unless it is null.
template <typename Sum>
void ApplyAveraged(const TensorSpec& spec, Sum sum, float* y, uint8_t* mask) {
  const int64_t per_byte = MaskElements(spec.dtype);
  if (mask != nullptr) std::fill_n(mask, (spec.elements() + per_byte - 1) / per_byte, uint8_t{0});
  ImageMeans(spec).Average(
      [=](int64_t i, int64_t c) {
        const float value = sum(i, c);
        if (mask != nullptr && !(value <= 0))
          mask[i / per_byte] |= static_cast<uint8_t>(1 << i % per_byte);
        return value;
      },
      y);
}

// Writes y, and mask or index if the step has them, from the normalised x_0, and x_1 by `second`;
// of a concatenation, the channels of one input.
// Forward and its rerun both call this function, so they give the same bits. The normalised values
// and the sum are rounded to the tensors' type, as they would be if they were stored.
[[gnu::noinline]] void Apply(const LoopArgs& args, const Norm& norm,
                             const Normalisation& normalised,
                             const std::optional<Normalisation>& second) {
  const NormPass layer = NormPassOf(args.signature.layer);
  const TensorSpec& spec = args.signature.Spec(X());
  const float* const x = args.Get<float>(X(norm.input));
  const float* const addend = layer.adds() ? args.Get<float>(X(1)) : nullptr;
  float* const y = args.Get<float>(Y());
  uint8_t* const saved = args.Find<uint8_t>(layer.MaskOrIndex());
  RoundAs(spec.dtype, [&](auto round) {
    const auto value = [=](int64_t i, int64_t c) { return round(normalised(x[i], c)); };
    if (layer.pool() != nullptr) {
      PooledRelu(
          *layer.pool(), spec, args.signature.Spec(Y()),
          [=](int64_t i, int64_t c) { return ReluOf(value(i, c)); }, y, saved);
      return;
    }
    const bool is_stored = WithActivation(layer, spec.dtype, [&](auto activation) {
      ForEachElement(norm.part, [=](int64_t i, int64_t c, int64_t whole) {
        y[whole] = activation.Value(value(i, c));
      });
    });
    if (is_stored) return;
    const auto store = [&](auto sum) {
      if (layer.averages()) {
        const auto last = [=, relu = layer.relu()](int64_t i, int64_t c) {
          return relu ? ReluOf(sum(i, c)) : sum(i, c);
        };
        ApplyAveraged(spec, last, y, saved);
      } else if (layer.relu()) {
        ForEachElement(norm.part,
                       [=](int64_t i, int64_t c, int64_t whole) { y[whole] = ReluOf(sum(i, c)); });
      } else {
        ForEachElement(norm.part,
                       [=](int64_t i, int64_t c, int64_t whole) { y[whole] = sum(i, c); });
      }
    };
    if (addend == nullptr) {
      store(value);
    } else if (second.has_value()) {
      store([=](int64_t i, int64_t c) {
        return round(value(i, c) + round((*second)(addend[i], c)));
      });
    } else {
      store([=](int64_t i, int64_t c) { return round(value(i, c) + addend[i]); });
    }
  });
  if (layer.has_mask() && !layer.averages() && saved != nullptr) WriteMask(spec, y, saved);
}

void TrainingForward(const LoopArgs& args) {
  std::optional<Normalisation> second;
  if (NormPassOf(args.signature.layer).addend_norm() != nullptr)
    second = BatchNormalisation(args, SecondNorm(args.signature));
  for (const Norm& norm : FirstNorm(args.signature))
    Apply(args, norm, BatchNormalisation(args, norm), second);
}

void InferenceForward(const LoopArgs& args) {
  float* const workspace = args.Workspace<float>();
  std::optional<Normalisation> second;
  if (NormPassOf(args.signature.layer).addend_norm() != nullptr) {
    const int64_t channels = NormalisedSpec(args.signature).shape.c();
    second = RunningNormalisation(args, SecondNorm(args.signature), workspace + channels);
  }
  for (const Norm& norm : FirstNorm(args.signature))
    Apply(args, norm, RunningNormalisation(args, norm, workspace), second);
}

// Calls use(gradient), where gradient(i, c, whole) is that of the layer's values before averaging.
// It is rounded as if it were stored, and so is the sum of two gradients.
template <typename Use>
void WithUnpooledGradient(const LoopArgs& args, Use use) {
  const float* const dy = args.Get<float>(Dy());
  const float* const other = args.Find<float>(Dy(1));
  const bool averages = NormPassOf(args.signature.layer).averages();
  if (!averages && other == nullptr)
    return use([dy](int64_t, int64_t, int64_t whole) { return dy[whole]; });
  const TensorSpec& spec = args.signature.Spec(X());
  RoundAs(spec.dtype, [&](auto round) {
    if (!averages) {
      return use([=](int64_t, int64_t, int64_t whole) { return round(dy[whole] + other[whole]); });
    }
    use([=, means = ImageMeans(spec)](int64_t i, int64_t c, int64_t) {
      return round(means.Gradient(dy, i, c));
    });
  });
}

// Behind a sum, the gradient is also that of the addend, or reaches the addend's batch norm. It is
// written to dx_1 first.
void SumBackward(const LoopArgs& args, const NormPass& layer) {
  const TensorSpec& spec = args.signature.Spec(X());
  const int64_t per_byte = MaskElements(spec.dtype);
  const uint8_t* const mask = layer.has_mask() ? args.Get<uint8_t>(layer.MaskOrIndex()) : nullptr;
  float* const dx_1 = args.Get<float>(Dx(1));
  WithUnpooledGradient(args, [&](auto gradient) {
    ForEachElement(WholeOf(spec), [=](int64_t i, int64_t c, int64_t whole) {
      const bool passes = mask == nullptr || PassesRelu(mask, per_byte, i);
      dx_1[i] = passes ? gradient(i, c, whole) : 0;
    });
  });
  const auto dz = [dx_1](int64_t i, int64_t, int64_t) { return dx_1[i]; };
  for (const Norm& norm : FirstNorm(args.signature))
    BackwardFrom(args, norm, dz, args.Get<float>(Dx(norm.input)));
  if (layer.addend_norm() != nullptr) BackwardFrom(args, SecondNorm(args.signature), dz, dx_1);
}

void PooledBackward(const LoopArgs& args, const NormPass& layer, const Norm& norm) {
  const TensorSpec& spec = args.signature.Spec(X());
  float* const dx = args.Get<float>(Dx());
  ScatterToMaxima(*layer.pool(), spec, args.signature.Spec(Dy()), args.Get<float>(Dy()),
                  args.Get<uint8_t>(layer.MaskOrIndex()), /*relu=*/true, dx);
  RoundAs(spec.dtype, [&](auto round) {
    BackwardFrom(
        args, norm, [=](int64_t i, int64_t, int64_t) { return round(dx[i]); }, dx);
  });
}

// `gradient` is that of the activation's result.
template <typename Function, typename Gradient>
void ActivationBackward(const LoopArgs& args, const Norm& norm, Function function,
                        Gradient gradient) {
  const float* const x = args.Get<float>(X(norm.input));
  const Normalisation normalised = NormalisationOf(args, norm);
  RoundAs(args.signature.Spec(Dy()).dtype, [&](auto round) {
    const auto dz = [=](int64_t i, int64_t c, int64_t whole) {
      return round(function.Gradient(round(normalised(x[i], c)), gradient(i, c, whole)));
    };
    BackwardFrom(args, norm, dz, args.Get<float>(Dx(norm.input)));
  });
}

void NormBackward(const LoopArgs& args, const NormPass& layer, const Norm& norm) {
  if (layer.pool() != nullptr) return PooledBackward(args, layer, norm);
  const DType dtype = args.signature.Spec(Dy()).dtype;
  const float* const dy = args.Get<float>(Dy());
  const bool is_done = WithActivation(layer, dtype, [&](auto activation) {
    ActivationBackward(args, norm, activation,
                       [dy](int64_t, int64_t, int64_t whole) { return dy[whole]; });
  });
  if (is_done) return;
  WithUnpooledGradient(args, [&](auto gradient) {
    layer.relu() ? ActivationBackward(args, norm, ReluFunction(Relu{}, dtype), gradient)
                 : BackwardFrom(args, norm, gradient, args.Get<float>(Dx(norm.input)));
  });
}

void Backward(const LoopArgs& args) {
  const NormPass layer = NormPassOf(args.signature.layer);
  if (layer.adds()) return SumBackward(args, layer);
  for (const Norm& norm : FirstNorm(args.signature)) NormBackward(args, layer, norm);
}

NormWorkspace WorkspaceOf(const StepSignature& signature) {
  return NormWorkspaceBytes(NormalisedSpec(signature).shape.c());
}

}  // namespace

absl::StatusOr<Candidates> NormPassForward(const StepSignature& signature) {
  if (signature.mode == Mode::kInference)
    return OwnLoop(signature, InferenceForward, WorkspaceOf(signature).inference);
  if (signature.rerun) return OwnLoop(signature, TrainingForward);
  return OwnLoop(signature, TrainingForward, WorkspaceOf(signature).training);
}

absl::StatusOr<Candidates> NormPassBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward, WorkspaceOf(signature).backward);
}

}  // namespace neap::cpu
