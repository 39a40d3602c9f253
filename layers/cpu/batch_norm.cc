#include "neap/layers/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/channel_rows.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/max_pool.h"
#include "neap/layers/fused_batch_norm.h"

namespace neap::cpu {
namespace {

using namespace operands;

// totals[c] = sum over channel c of value(offset, c), in double.
template <typename Value>
void SumPerChannel(const ChannelRows& rows, double* totals, Value value) {
  std::fill_n(totals, rows.channels, 0.0);
  if (rows.channels_last) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      for (int64_t c = 0; c < rows.channels; ++c) totals[c] += value(r * rows.channels + c, c);
    }
    return;
  }
  constexpr int64_t kLanes = 8;  // independent sums
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    const int64_t c = r % rows.channels;
    const int64_t begin = r * rows.pixels;
    double lanes[kLanes] = {};
    int64_t p = 0;
    for (; p + kLanes <= rows.pixels; p += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] += value(begin + p + k, c);
    }
    for (; p < rows.pixels; ++p) lanes[0] += value(begin + p, c);
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

// A batch norm of the layer: its input, and the first of its parameters, states and saved tensors.
struct Norm {
  BatchNorm layer;
  Operand x;
  int first;
};
Norm FirstNorm(const FusedBatchNorm& layer) { return {layer.norm, X(0), 0}; }
Norm SecondNorm(const FusedBatchNorm& layer) { return {*layer.addend_norm, X(1), 2}; }

// `invstd` replaces the saved one, with the running mean.
Normalisation NormalisationOf(const LoopArgs& args, const Norm& norm,
                              const float* invstd = nullptr) {
  const int at = norm.first;
  const bool saved = invstd == nullptr;
  return {args.Get<float>(Param(at)), args.Find<float>(Param(at + 1)),
          args.Get<float>(saved ? Saved(at) : State(at)),
          saved ? args.Get<float>(Saved(at + 1)) : invstd};
}

// Bit k of byte i: whether element i * MaskElements() + k of y is not 0, or is NaN.
void WriteMask(const TensorSpec& spec, const float* y, uint8_t* mask) {
  const int64_t elements = spec.elements(), per_byte = MaskElements(spec.dtype);
  for (int64_t begin = 0; begin < elements; begin += per_byte) {
    unsigned bits = 0;
    for (int64_t i = begin; i < std::min(begin + per_byte, elements); ++i)
      bits |= static_cast<unsigned>(!(y[i] <= 0)) << (i - begin);
    mask[begin / per_byte] = static_cast<uint8_t>(bits);
  }
}

// Writes y, and mask or index if the step has them, from the normalised x_0, and x_1 by `second`.
// Forward and its rerun both call this function, so they give the same bits. The normalised values
// and the sum are rounded to the tensors' type, as they would be if they were stored.
[[gnu::noinline]] void Apply(const LoopArgs& args, const Normalisation& normalised,
                             const std::optional<Normalisation>& second) {
  const FusedBatchNorm layer = FusedBatchNormOf(args.signature.layer);
  const TensorSpec& spec = args.signature.Spec(X());
  const float* const x = args.Get<float>(X());
  const float* const addend = args.Find<float>(X(1));
  float* const y = args.Get<float>(Y());
  const ChannelRows rows = ChannelRowsOf(spec);
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
      if (layer.relu) {
        ForEachElement(rows, [=](int64_t i, int64_t c) { y[i] = ReluOf(sum(i, c)); });
      } else {
        ForEachElement(rows, [=](int64_t i, int64_t c) { y[i] = sum(i, c); });
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
  if (layer.has_mask() && saved != nullptr) WriteMask(spec, y, saved);
}

float InverseDeviation(double variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
}

// Writes the saved mean and invstd, and the variance to `variance`. Two passes, because subtracting
// the mean first avoids cancellation.
void Statistics(const LoopArgs& args, const ChannelRows& rows, const Norm& norm, double* variance) {
  const float* const x = args.Get<float>(norm.x);
  float* const mean = args.Get<float>(Saved(norm.first));
  float* const invstd = args.Get<float>(Saved(norm.first + 1));
  const double count = static_cast<double>(rows.count());
  double* const exact_mean = variance + rows.channels;
  SumPerChannel(rows, exact_mean, [=](int64_t i, int64_t) { return static_cast<double>(x[i]); });
  for (int64_t c = 0; c < rows.channels; ++c) {
    exact_mean[c] /= count;
    mean[c] = static_cast<float>(exact_mean[c]);
  }
  SumPerChannel(rows, variance, [=](int64_t i, int64_t c) {
    const double centred = static_cast<double>(x[i]) - exact_mean[c];
    return centred * centred;
  });
  for (int64_t c = 0; c < rows.channels; ++c) {
    variance[c] /= count;
    invstd[c] = InverseDeviation(variance[c], norm.layer.epsilon);
  }
}

void UpdateRunning(const LoopArgs& args, const ChannelRows& rows, const Norm& norm,
                   const double* variance) {
  const float momentum = norm.layer.momentum;
  const float* const mean = args.Get<float>(Saved(norm.first));
  float* const running_mean = args.Get<float>(State(norm.first));
  float* const running_var = args.Get<float>(State(norm.first + 1));
  const double count = static_cast<double>(rows.count());
  const double unbiased = count / std::max(count - 1, 1.0);
  for (int64_t c = 0; c < rows.channels; ++c) {
    const float batch_var = static_cast<float>(variance[c] * unbiased);
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean[c];
    running_var[c] = (1 - momentum) * running_var[c] + momentum * batch_var;
  }
}

void TrainingForward(const LoopArgs& args) {
  const FusedBatchNorm layer = FusedBatchNormOf(args.signature.layer);
  const ChannelRows rows = ChannelRowsOf(args.signature.Spec(X()));
  const auto summarise = [&](const Norm& norm) {
    if (args.signature.rerun) return;
    double* const variance = args.Workspace<double>();
    Statistics(args, rows, norm, variance);
    UpdateRunning(args, rows, norm, variance);
  };
  std::optional<Normalisation> second;
  summarise(FirstNorm(layer));
  if (layer.addend_norm.has_value()) {
    summarise(SecondNorm(layer));
    second = NormalisationOf(args, SecondNorm(layer));
  }
  Apply(args, NormalisationOf(args, FirstNorm(layer)), second);
}

void InferenceForward(const LoopArgs& args) {
  const FusedBatchNorm layer = FusedBatchNormOf(args.signature.layer);
  const int64_t channels = ChannelRowsOf(args.signature.Spec(X())).channels;
  float* const workspace = args.Workspace<float>();
  const auto normalisation = [&](const Norm& norm) {
    const float* const running_var = args.Get<float>(State(norm.first + 1));
    float* const invstd = workspace + (norm.first == 0 ? 0 : channels);
    for (int64_t c = 0; c < channels; ++c)
      invstd[c] = InverseDeviation(static_cast<double>(running_var[c]), norm.layer.epsilon);
    return NormalisationOf(args, norm, invstd);
  };
  std::optional<Normalisation> second;
  if (layer.addend_norm.has_value()) second = normalisation(SecondNorm(layer));
  Apply(args, normalisation(FirstNorm(layer)), second);
}

// The gradients of a batch norm, where dz(i, c) is the one that reaches it: dbeta = sum dz;
// dgamma = sum dz * xhat; dx = gamma invstd (dz - dbeta / n - xhat dgamma / n), where xhat is the
// normalised x. dx may be where dz is read.
template <typename Gradient>
void BackwardFrom(const LoopArgs& args, const Norm& norm, Gradient dz, float* dx) {
  const ChannelRows rows = ChannelRowsOf(args.signature.Spec(X()));
  const float* const x = args.Get<float>(norm.x);
  const float* const gamma = args.Get<float>(Param(norm.first));
  const float* const mean = args.Get<float>(Saved(norm.first));
  const float* const invstd = args.Get<float>(Saved(norm.first + 1));
  double* const sum_dz = args.Workspace<double>();
  double* const sum_dz_xhat = sum_dz + rows.channels;
  SumPerChannel(rows, sum_dz, [=](int64_t i, int64_t c) { return static_cast<double>(dz(i, c)); });
  SumPerChannel(rows, sum_dz_xhat, [=](int64_t i, int64_t c) {
    return static_cast<double>(dz(i, c) * ((x[i] - mean[c]) * invstd[c]));
  });

  float* const dgamma = args.Get<float>(ParamGrad(norm.first));
  float* const dbeta = args.Get<float>(ParamGrad(norm.first + 1));
  float* const mean_dz = reinterpret_cast<float*>(sum_dz_xhat + rows.channels);
  float* const mean_dz_xhat = mean_dz + rows.channels;
  const double count = static_cast<double>(rows.count());
  for (int64_t c = 0; c < rows.channels; ++c) {
    dgamma[c] = static_cast<float>(sum_dz_xhat[c]);
    dbeta[c] = static_cast<float>(sum_dz[c]);
    mean_dz[c] = static_cast<float>(sum_dz[c] / count);
    mean_dz_xhat[c] = static_cast<float>(sum_dz_xhat[c] / count);
  }
  ForEachElement(rows, [=](int64_t i, int64_t c) {
    const float xhat = (x[i] - mean[c]) * invstd[c];
    dx[i] = gamma[c] * invstd[c] * (dz(i, c) - mean_dz[c] - xhat * mean_dz_xhat[c]);
  });
}

// Behind a sum, the gradient is also that of the addend, or reaches the addend's batch norm. It is
// written to dx_1 first.
void SumBackward(const LoopArgs& args, const FusedBatchNorm& layer, const float* dy) {
  const TensorSpec& spec = args.signature.Spec(Dy());
  const int64_t per_byte = MaskElements(spec.dtype);
  const uint8_t* const mask = layer.has_mask() ? args.Get<uint8_t>(layer.MaskOrIndex()) : nullptr;
  float* const dx_1 = args.Get<float>(Dx(1));
  for (int64_t i = 0; i < spec.elements(); ++i) {
    const bool passes = mask == nullptr || (mask[i / per_byte] >> (i % per_byte) & 1) != 0;
    dx_1[i] = passes ? dy[i] : 0;
  }
  const auto dz = [dx_1](int64_t i, int64_t) { return dx_1[i]; };
  BackwardFrom(args, FirstNorm(layer), dz, args.Get<float>(Dx()));
  if (layer.addend_norm.has_value()) BackwardFrom(args, SecondNorm(layer), dz, dx_1);
}

void Backward(const LoopArgs& args) {
  const FusedBatchNorm layer = FusedBatchNormOf(args.signature.layer);
  const TensorSpec& spec = args.signature.Spec(X());
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  const Norm norm = FirstNorm(layer);
  if (layer.adds) {
    SumBackward(args, layer, dy);
  } else if (layer.pool.has_value()) {
    ScatterToMaxima(*layer.pool, spec, args.signature.Spec(Dy()), dy,
                    args.Get<uint8_t>(layer.MaskOrIndex()), /*relu=*/true, dx);
    RoundAs(spec.dtype, [&](auto round) {
      BackwardFrom(
          args, norm, [=](int64_t i, int64_t) { return round(dx[i]); }, dx);
    });
  } else if (layer.relu) {
    const float* const x = args.Get<float>(X());
    const Normalisation normalised = NormalisationOf(args, norm);
    RoundAs(spec.dtype, [&](auto round) {
      const auto dz = [=](int64_t i, int64_t c) {
        return round(normalised(x[i], c)) <= 0 ? 0 : dy[i];
      };
      BackwardFrom(args, norm, dz, dx);
    });
  } else {
    BackwardFrom(
        args, norm, [dy](int64_t i, int64_t) { return dy[i]; }, dx);
  }
}

int64_t PerChannelBytes(const StepSignature& signature, size_t bytes) {
  return signature.Spec(X()).shape.c() * static_cast<int64_t>(bytes);
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
