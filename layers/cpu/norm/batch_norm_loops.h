// The loops of batch norm on the CPU, for layers that normalise one tensor, two, or the parts of a
// concatenation. Sums are float64. Files that include it are compiled without contraction of
// products and sums, on which the bits depend (CMakeLists.txt).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "neap/layers/batch_norm.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {

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

// Normalises an element: (x - mean) * (invstd * gamma) + beta.
struct Normalisation {
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* invstd;
  float operator()(float x, int64_t c) const {
    return (x - mean[c]) * (invstd[c] * gamma[c]) + beta[c];
  }
};

// A batch norm of a layer, or its part for one input of a concatenation: the input, the first of
// its parameters, states and saved tensors, and the channels that it normalises.
struct Norm {
  BatchNorm layer;
  int input;
  int first;
  ChannelPart part;
  int64_t channel = 0;  // of the parameters, states and saved tensors, for the first of the part

  // A tensor of values per channel, from the first one of the part on.
  float* Get(const LoopArgs& args, Operand operand) const {
    return args.Get<float>(operand) + channel;
  }
};

// `invstd` replaces the saved one, with the running mean.
inline Normalisation NormalisationOf(const LoopArgs& args, const Norm& norm,
                                     const float* invstd = nullptr) {
  const int at = norm.first;
  const bool saved = invstd == nullptr;
  const bool shifts = args.signature.Has(operands::Param(at + 1));
  return {norm.Get(args, operands::Param(at)),
          shifts ? norm.Get(args, operands::Param(at + 1)) : nullptr,
          norm.Get(args, saved ? operands::Saved(at) : operands::State(at)),
          saved ? norm.Get(args, operands::Saved(at + 1)) : invstd};
}

inline float InverseDeviation(double variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
}

// Normalises by the running statistics. Writes 1 / their deviation to `invstd`.
inline Normalisation RunningNormalisation(const LoopArgs& args, const Norm& norm, float* invstd) {
  const float* const variance = norm.Get(args, operands::State(norm.first + 1));
  for (int64_t c = 0; c < norm.part.rows.channels; ++c)
    invstd[c] = InverseDeviation(static_cast<double>(variance[c]), norm.layer.epsilon);
  return NormalisationOf(args, norm, invstd);
}

// Writes the mean of x per channel, and the sum of squared deviations from it. Two passes, because
// subtracting the mean first avoids cancellation.
inline void Moments(const ChannelPart& part, const float* x, double* mean, double* squares) {
  const double count = static_cast<double>(part.rows.count());
  SumPerChannel(part, mean, [=](int64_t i, int64_t, int64_t) { return static_cast<double>(x[i]); });
  for (int64_t c = 0; c < part.rows.channels; ++c) mean[c] /= count;
  SumPerChannel(part, squares, [=](int64_t i, int64_t c, int64_t) {
    const double centred = static_cast<double>(x[i]) - mean[c];
    return centred * centred;
  });
}

// Writes the saved mean and invstd, and the variance to `variance`.
inline void Statistics(const LoopArgs& args, const Norm& norm, double* variance) {
  const ChannelRows& rows = norm.part.rows;
  float* const mean = norm.Get(args, operands::Saved(norm.first));
  float* const invstd = norm.Get(args, operands::Saved(norm.first + 1));
  const double count = static_cast<double>(rows.count());
  double* const exact_mean = variance + rows.channels;
  Moments(norm.part, args.Get<float>(operands::X(norm.input)), exact_mean, variance);
  for (int64_t c = 0; c < rows.channels; ++c) {
    mean[c] = static_cast<float>(exact_mean[c]);
    variance[c] /= count;
    invstd[c] = InverseDeviation(variance[c], norm.layer.epsilon);
  }
}

// `count` is the number of values per channel.
inline void UpdateRunning(const LoopArgs& args, const Norm& norm, const double* variance,
                          double count) {
  const ChannelRows& rows = norm.part.rows;
  const float momentum = norm.layer.momentum;
  const float* const mean = norm.Get(args, operands::Saved(norm.first));
  float* const running_mean = norm.Get(args, operands::State(norm.first));
  float* const running_var = norm.Get(args, operands::State(norm.first + 1));
  const double unbiased = count / std::max(count - 1, 1.0);
  for (int64_t c = 0; c < rows.channels; ++c) {
    const float batch_var = static_cast<float>(variance[c] * unbiased);
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean[c];
    running_var[c] = (1 - momentum) * running_var[c] + momentum * batch_var;
  }
}

// Normalises by the statistics of the batch, which the first run computes and saves.
inline Normalisation BatchNormalisation(const LoopArgs& args, const Norm& norm) {
  if (!args.signature.rerun) {
    double* const variance = args.Workspace<double>();
    Statistics(args, norm, variance);
    UpdateRunning(args, norm, variance, static_cast<double>(norm.part.rows.count()));
  }
  return NormalisationOf(args, norm);
}

// Per channel, the sums of dz(i, c, whole), the gradient that reaches a batch norm, and of
// dz * xhat, which are written to dbeta and dgamma.
template <typename Gradient>
void SumGradients(const LoopArgs& args, const Norm& norm, Gradient dz, double* sum_dz,
                  double* sum_dz_xhat) {
  const float* const x = args.Get<float>(operands::X(norm.input));
  const float* const mean = norm.Get(args, operands::Saved(norm.first));
  const float* const invstd = norm.Get(args, operands::Saved(norm.first + 1));
  SumPerChannel(norm.part, sum_dz, [=](int64_t i, int64_t c, int64_t whole) {
    return static_cast<double>(dz(i, c, whole));
  });
  SumPerChannel(norm.part, sum_dz_xhat, [=](int64_t i, int64_t c, int64_t whole) {
    return static_cast<double>(dz(i, c, whole) * ((x[i] - mean[c]) * invstd[c]));
  });
  float* const dgamma = norm.Get(args, operands::ParamGrad(norm.first));
  float* const dbeta = norm.Get(args, operands::ParamGrad(norm.first + 1));
  for (int64_t c = 0; c < norm.part.rows.channels; ++c) {
    dgamma[c] = static_cast<float>(sum_dz_xhat[c]);
    dbeta[c] = static_cast<float>(sum_dz[c]);
  }
}

// The gradients of a batch norm, where dz(i, c, whole) is the one that reaches it: dbeta = sum dz;
// dgamma = sum dz * xhat; dx = gamma invstd (dz - dbeta / n - xhat dgamma / n), where xhat is the
// normalised x. dx may be where dz is read. What is added to a sum is rounded as if it were stored.
template <typename Gradient>
void BackwardFrom(const LoopArgs& args, const Norm& norm, Gradient dz, float* dx) {
  const ChannelRows& rows = norm.part.rows;
  const float* const x = args.Get<float>(operands::X(norm.input));
  const float* const gamma = norm.Get(args, operands::Param(norm.first));
  const float* const mean = norm.Get(args, operands::Saved(norm.first));
  const float* const invstd = norm.Get(args, operands::Saved(norm.first + 1));
  double* const sum_dz = args.Workspace<double>();
  double* const sum_dz_xhat = sum_dz + rows.channels;
  SumGradients(args, norm, dz, sum_dz, sum_dz_xhat);

  float* const mean_dz = reinterpret_cast<float*>(sum_dz_xhat + rows.channels);
  float* const mean_dz_xhat = mean_dz + rows.channels;
  const double count = static_cast<double>(rows.count());
  for (int64_t c = 0; c < rows.channels; ++c) {
    mean_dz[c] = static_cast<float>(sum_dz[c] / count);
    mean_dz_xhat[c] = static_cast<float>(sum_dz_xhat[c] / count);
  }
  const auto gradient = [=](int64_t i, int64_t c, int64_t whole) {
    const float xhat = (x[i] - mean[c]) * invstd[c];
    return gamma[c] * invstd[c] * (dz(i, c, whole) - mean_dz[c] - xhat * mean_dz_xhat[c]);
  };
  const Operand written = operands::Dx(norm.input);
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

// The workspace of a batch norm's steps, or of two whose tensors have as many channels.
struct NormWorkspace {
  int64_t training, inference, backward;
};
inline NormWorkspace NormWorkspaceBytes(int64_t channels) {
  constexpr int64_t kFloat = sizeof(float), kDouble = sizeof(double);
  return {2 * kDouble * channels, 2 * kFloat * channels, (2 * kDouble + 2 * kFloat) * channels};
}

}  // namespace neap::cpu
