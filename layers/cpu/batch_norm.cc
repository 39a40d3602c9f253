#include "neap/layers/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/channel_rows.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/global_average_pool.h"
#include "neap/layers/cpu/max_pool.h"
#include "neap/layers/cpu/relu_mask.h"
#include "neap/layers/fused_batch_norm.h"

namespace neap::cpu {
namespace {

using namespace operands;

// totals[c] = sum over channel c of value(offset, c, whole), in double (ForEachElement).
template <typename Value>
void SumPerChannel(const ChannelPart& part, double* totals, Value value) {
  constexpr int64_t kLanes = 8;  // independent sums
  const ChannelRows& rows = part.rows;
  std::fill_n(totals, rows.channels, 0.0);
  if (rows.channels_last) {
    ForEachElement(part,
                   [&](int64_t i, int64_t c, int64_t whole) { totals[c] += value(i, c, whole); });
    return;
  }
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    const int64_t c = r % rows.channels;
    const int64_t begin = r * rows.pixels, whole = part.WholeRow(r) * rows.pixels;
    double lanes[kLanes] = {};
    int64_t p = 0;
    for (; p + kLanes <= rows.pixels; p += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] += value(begin + p + k, c, whole + p + k);
    }
    for (; p < rows.pixels; ++p) lanes[0] += value(begin + p, c, whole + p);
    for (double lane : lanes) totals[c] += lane;
  }
}

// What normalises an element: (x - mean) * (invstd * gamma) + beta.
struct Normalisation {
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* invstd;
  float operator()(float x, int64_t c) const {
    return (x - mean[c]) * (invstd[c] * gamma[c]) + beta[c];
  }
};

// A batch norm of the layer, or its part for one input of a concatenation: the input, the first of
// its parameters, states and saved tensors, and the channels that it normalises.
struct Norm {
  BatchNorm layer;
  int input;
  int first;
  ChannelPart part;

  // A tensor of values per channel, from the first channel of the part on.
  float* Get(const LoopArgs& args, Operand operand) const {
    return args.Get<float>(operand) + part.first;
  }
};

// The first batch norm: of input 0, or of every input of a concatenation.
std::vector<Norm> FirstNorm(const StepSignature& signature) {
  const FusedBatchNorm layer = FusedBatchNormOf(signature.layer);
  ChannelPart part = {{}, 0, NormalisedSpec(signature).shape.c()};
  std::vector<Norm> norms;
  for (int i = 0; part.first < part.all; ++i) {
    part.rows = ChannelRowsOf(signature.Spec(X(i)));
    norms.push_back({layer.norm, i, 0, part});
    part.first += part.rows.channels;
  }
  return norms;
}
Norm SecondNorm(const StepSignature& signature) {
  const FusedBatchNorm layer = FusedBatchNormOf(signature.layer);
  return {*layer.addend_norm, 1, 2, WholeOf(signature.Spec(X(1)))};
}

// `invstd` replaces the saved one, with the running mean.
Normalisation NormalisationOf(const LoopArgs& args, const Norm& norm,
                              const float* invstd = nullptr) {
  const int at = norm.first;
  const bool saved = invstd == nullptr;
  const bool shifts = args.signature.Has(Param(at + 1));
  return {norm.Get(args, Param(at)), shifts ? norm.Get(args, Param(at + 1)) : nullptr,
          norm.Get(args, saved ? Saved(at) : State(at)),
          saved ? norm.Get(args, Saved(at + 1)) : invstd};
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
  const FusedBatchNorm layer = FusedBatchNormOf(args.signature.layer);
  const TensorSpec& spec = args.signature.Spec(X());
  const float* const x = args.Get<float>(X(norm.input));
  const float* const addend = layer.adds ? args.Get<float>(X(1)) : nullptr;
  float* const y = args.Get<float>(Y());
  uint8_t* const saved = args.Find<uint8_t>(layer.MaskOrIndex());
  RoundAs(spec.dtype, [&](auto round) {
    const auto value = [=](int64_t i, int64_t c) { return round(normalised(x[i], c)); };
    if (layer.pool.has_value()) {
      PooledRelu(
          *layer.pool, spec, args.signature.Spec(Y()),
          [=](int64_t i, int64_t c) { return ReluOf(value(i, c)); }, y, saved);
      return;
    }
    const auto store = [&](auto sum) {
      if (layer.averages) {
        const auto last = [=, relu = layer.relu](int64_t i, int64_t c) {
          return relu ? ReluOf(sum(i, c)) : sum(i, c);
        };
        ApplyAveraged(spec, last, y, saved);
      } else if (layer.relu) {
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
  if (layer.has_mask() && !layer.averages && saved != nullptr) WriteMask(spec, y, saved);
}

float InverseDeviation(double variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
}

// Writes the saved mean and invstd, and the variance to `variance`. Two passes, because subtracting
// the mean first avoids cancellation.
void Statistics(const LoopArgs& args, const Norm& norm, double* variance) {
  const ChannelRows& rows = norm.part.rows;
  const float* const x = args.Get<float>(X(norm.input));
  float* const mean = norm.Get(args, Saved(norm.first));
  float* const invstd = norm.Get(args, Saved(norm.first + 1));
  const double count = static_cast<double>(rows.count());
  double* const exact_mean = variance + rows.channels;
  SumPerChannel(norm.part, exact_mean,
                [=](int64_t i, int64_t, int64_t) { return static_cast<double>(x[i]); });
  for (int64_t c = 0; c < rows.channels; ++c) {
    exact_mean[c] /= count;
    mean[c] = static_cast<float>(exact_mean[c]);
  }
  SumPerChannel(norm.part, variance, [=](int64_t i, int64_t c, int64_t) {
    const double centred = static_cast<double>(x[i]) - exact_mean[c];
    return centred * centred;
  });
  for (int64_t c = 0; c < rows.channels; ++c) {
    variance[c] /= count;
    invstd[c] = InverseDeviation(variance[c], norm.layer.epsilon);
  }
}

void UpdateRunning(const LoopArgs& args, const Norm& norm, const double* variance) {
  const ChannelRows& rows = norm.part.rows;
  const float momentum = norm.layer.momentum;
  const float* const mean = norm.Get(args, Saved(norm.first));
  float* const running_mean = norm.Get(args, State(norm.first));
  float* const running_var = norm.Get(args, State(norm.first + 1));
  const double count = static_cast<double>(rows.count());
  const double unbiased = count / std::max(count - 1, 1.0);
  for (int64_t c = 0; c < rows.channels; ++c) {
    const float batch_var = static_cast<float>(variance[c] * unbiased);
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean[c];
    running_var[c] = (1 - momentum) * running_var[c] + momentum * batch_var;
  }
}

void TrainingForward(const LoopArgs& args) {
  const auto summarised = [&](const Norm& norm) {
    if (!args.signature.rerun) {
      double* const variance = args.Workspace<double>();
      Statistics(args, norm, variance);
      UpdateRunning(args, norm, variance);
    }
    return NormalisationOf(args, norm);
  };
  std::optional<Normalisation> second;
  if (FusedBatchNormOf(args.signature.layer).addend_norm.has_value())
    second = summarised(SecondNorm(args.signature));
  for (const Norm& norm : FirstNorm(args.signature)) Apply(args, norm, summarised(norm), second);
}

void InferenceForward(const LoopArgs& args) {
  const auto normalisation = [&](const Norm& norm, float* invstd) {
    const float* const running_var = norm.Get(args, State(norm.first + 1));
    for (int64_t c = 0; c < norm.part.rows.channels; ++c)
      invstd[c] = InverseDeviation(static_cast<double>(running_var[c]), norm.layer.epsilon);
    return NormalisationOf(args, norm, invstd);
  };
  float* const workspace = args.Workspace<float>();
  std::optional<Normalisation> second;
  if (FusedBatchNormOf(args.signature.layer).addend_norm.has_value()) {
    const int64_t channels = NormalisedSpec(args.signature).shape.c();
    second = normalisation(SecondNorm(args.signature), workspace + channels);
  }
  for (const Norm& norm : FirstNorm(args.signature))
    Apply(args, norm, normalisation(norm, workspace), second);
}

// The gradients of a batch norm, where dz(i, c, whole) is the one that reaches it: dbeta = sum dz;
// dgamma = sum dz * xhat; dx = gamma invstd (dz - dbeta / n - xhat dgamma / n), where xhat is the
// normalised x. dx may be where dz is read. What is added to a sum is rounded as if it were stored.
template <typename Gradient>
void BackwardFrom(const LoopArgs& args, const Norm& norm, Gradient dz, float* dx) {
  const ChannelRows& rows = norm.part.rows;
  const float* const x = args.Get<float>(X(norm.input));
  const float* const gamma = norm.Get(args, Param(norm.first));
  const float* const mean = norm.Get(args, Saved(norm.first));
  const float* const invstd = norm.Get(args, Saved(norm.first + 1));
  double* const sum_dz = args.Workspace<double>();
  double* const sum_dz_xhat = sum_dz + rows.channels;
  SumPerChannel(norm.part, sum_dz, [=](int64_t i, int64_t c, int64_t whole) {
    return static_cast<double>(dz(i, c, whole));
  });
  SumPerChannel(norm.part, sum_dz_xhat, [=](int64_t i, int64_t c, int64_t whole) {
    return static_cast<double>(dz(i, c, whole) * ((x[i] - mean[c]) * invstd[c]));
  });

  float* const dgamma = norm.Get(args, ParamGrad(norm.first));
  float* const dbeta = norm.Get(args, ParamGrad(norm.first + 1));
  float* const mean_dz = reinterpret_cast<float*>(sum_dz_xhat + rows.channels);
  float* const mean_dz_xhat = mean_dz + rows.channels;
  const double count = static_cast<double>(rows.count());
  for (int64_t c = 0; c < rows.channels; ++c) {
    dgamma[c] = static_cast<float>(sum_dz_xhat[c]);
    dbeta[c] = static_cast<float>(sum_dz[c]);
    mean_dz[c] = static_cast<float>(sum_dz[c] / count);
    mean_dz_xhat[c] = static_cast<float>(sum_dz_xhat[c] / count);
  }
  const auto gradient = [=](int64_t i, int64_t c, int64_t whole) {
    const float xhat = (x[i] - mean[c]) * invstd[c];
    return gamma[c] * invstd[c] * (dz(i, c, whole) - mean_dz[c] - xhat * mean_dz_xhat[c]);
  };
  const Operand written = Dx(norm.input);
  if (!args.signature.Accumulates(written)) {
    ForEachElement(norm.part,
                   [=](int64_t i, int64_t c, int64_t whole) { dx[i] = gradient(i, c, whole); });
    return;
  }
  RoundAs(args.signature.Spec(written).dtype, [&](auto round) {
    ForEachElement(norm.part, [=](int64_t i, int64_t c, int64_t whole) {
      dx[i] += round(gradient(i, c, whole));
    });
  });
}

// Calls use(gradient), where gradient(i, c, whole) is that of what the layer computes before it
// averages. It is rounded as if it were stored, and so is the sum of two gradients.
template <typename Use>
void WithUnpooledGradient(const LoopArgs& args, Use use) {
  const float* const dy = args.Get<float>(Dy());
  const float* const other = args.Find<float>(Dy(1));
  const bool averages = FusedBatchNormOf(args.signature.layer).averages;
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
void SumBackward(const LoopArgs& args, const FusedBatchNorm& layer) {
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
  if (layer.addend_norm.has_value()) BackwardFrom(args, SecondNorm(args.signature), dz, dx_1);
}

void PooledBackward(const LoopArgs& args, const FusedBatchNorm& layer, const Norm& norm) {
  const TensorSpec& spec = args.signature.Spec(X());
  float* const dx = args.Get<float>(Dx());
  ScatterToMaxima(*layer.pool, spec, args.signature.Spec(Dy()), args.Get<float>(Dy()),
                  args.Get<uint8_t>(layer.MaskOrIndex()), /*relu=*/true, dx);
  RoundAs(spec.dtype, [&](auto round) {
    BackwardFrom(
        args, norm, [=](int64_t i, int64_t, int64_t) { return round(dx[i]); }, dx);
  });
}

template <typename Gradient>
void ReluBackward(const LoopArgs& args, const Norm& norm, Gradient gradient) {
  const float* const x = args.Get<float>(X(norm.input));
  const Normalisation normalised = NormalisationOf(args, norm);
  RoundAs(args.signature.Spec(Dy()).dtype, [&](auto round) {
    const auto dz = [=](int64_t i, int64_t c, int64_t whole) {
      return round(normalised(x[i], c)) <= 0 ? 0 : gradient(i, c, whole);
    };
    BackwardFrom(args, norm, dz, args.Get<float>(Dx(norm.input)));
  });
}

void Backward(const LoopArgs& args) {
  const FusedBatchNorm layer = FusedBatchNormOf(args.signature.layer);
  if (layer.adds) return SumBackward(args, layer);
  for (const Norm& norm : FirstNorm(args.signature)) {
    if (layer.pool.has_value()) {
      PooledBackward(args, layer, norm);
    } else {
      WithUnpooledGradient(args, [&](auto gradient) {
        layer.relu ? ReluBackward(args, norm, gradient)
                   : BackwardFrom(args, norm, gradient, args.Get<float>(Dx(norm.input)));
      });
    }
  }
}

int64_t PerChannelBytes(const StepSignature& signature, size_t bytes) {
  return NormalisedSpec(signature).shape.c() * static_cast<int64_t>(bytes);
}

}  // namespace

absl::StatusOr<Candidates> BatchNormForward(const StepSignature& signature) {
  if (signature.mode == Mode::kInference) {
    return OwnLoop(signature, InferenceForward, PerChannelBytes(signature, 2 * sizeof(float)));
  }
  if (signature.rerun) return OwnLoop(signature, TrainingForward);
  return OwnLoop(signature, TrainingForward, PerChannelBytes(signature, 2 * sizeof(double)));
}

absl::StatusOr<Candidates> BatchNormBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward,
                 PerChannelBytes(signature, 2 * sizeof(double) + 2 * sizeof(float)));
}

}  // namespace neap::cpu
