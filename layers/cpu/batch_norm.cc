#include "neap/layers/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/fused_batch_norm.h"

namespace neap::cpu {
namespace {

using namespace operands;

// A tensor as rows in memory. NCHW: a row is one channel's plane of one image. NHWC: a row is one
// pixel with all its channels. Every loop below therefore has two forms: per-channel numbers are
// constant along a row, or vary along it.
struct Rows {
  int64_t images, channels, pixels;
  bool channels_last;
  int64_t count() const { return images * pixels; }  // elements per channel
};

Rows RowsOf(const TensorSpec& spec) {
  return {spec.shape.n(), spec.shape.c(), spec.shape.h() * spec.shape.w(),
          spec.layout == Layout::kNhwc};
}

// totals[c] = sum over channel c of value(offset, c), in double.
template <typename Value>
void SumPerChannel(const Rows& rows, double* totals, Value value) {
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

// Calls apply(offset, c) for every element.
template <typename Apply>
void ForEachElement(const Rows& rows, Apply apply) {
  if (rows.channels_last) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      for (int64_t c = 0; c < rows.channels; ++c) apply(r * rows.channels + c, c);
    }
    return;
  }
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    const int64_t c = r % rows.channels;
    for (int64_t p = 0; p < rows.pixels; ++p) apply(r * rows.pixels + p, c);
  }
}

float ReluOf(float x) { return x <= 0 ? 0 : x; }  // NaN passes

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

// y = relu(normalised x + addend), without the sum if `addend` is null and without the ReLU if not
// `relu`. Forward and its rerun both call this function, so they give the same bits. The normalised
// x and the sum are rounded to `dtype`, as they would be if they were stored.
[[gnu::noinline]] void Normalise(const Rows& rows, DType dtype, const float* x,
                                 const Normalisation& normalised, const float* addend, bool relu,
                                 float* y) {
  RoundAs(dtype, [&](auto round) {
    const auto apply = [&](auto finish) {
      ForEachElement(rows,
                     [=](int64_t i, int64_t c) { y[i] = finish(round(normalised(x[i], c)), i); });
    };
    if (addend == nullptr) {
      relu ? apply([](float v, int64_t) { return ReluOf(v); })
           : apply([](float v, int64_t) { return v; });
    } else {
      relu ? apply([=](float v, int64_t i) { return ReluOf(round(v + addend[i])); })
           : apply([=](float v, int64_t i) { return v + addend[i]; });
    }
  });
}

float InverseDeviation(double variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
}

// Writes the saved mean and invstd, and the variance to `variance`. Two passes, because subtracting
// the mean first avoids cancellation.
void Statistics(const LoopArgs& args, const Rows& rows, const float* x, double* variance) {
  const float epsilon = FusedBatchNormOf(args.signature.layer).norm.epsilon;
  float* const mean = args.Get<float>(Saved(0));
  float* const invstd = args.Get<float>(Saved(1));
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
    invstd[c] = InverseDeviation(variance[c], epsilon);
  }
}

void UpdateRunning(const LoopArgs& args, const Rows& rows, const double* variance) {
  const float momentum = FusedBatchNormOf(args.signature.layer).norm.momentum;
  const float* const mean = args.Get<float>(Saved(0));
  float* const running_mean = args.Get<float>(State(0));
  float* const running_var = args.Get<float>(State(1));
  const double count = static_cast<double>(rows.count());
  const double unbiased = count / std::max(count - 1, 1.0);
  for (int64_t c = 0; c < rows.channels; ++c) {
    const float batch_var = static_cast<float>(variance[c] * unbiased);
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean[c];
    running_var[c] = (1 - momentum) * running_var[c] + momentum * batch_var;
  }
}

void TrainingForward(const LoopArgs& args) {
  const Rows rows = RowsOf(args.signature.Spec(X()));
  const float* const x = args.Get<float>(X());
  if (!args.signature.rerun) {
    double* const variance = args.Workspace<double>();
    Statistics(args, rows, x, variance);
    UpdateRunning(args, rows, variance);
  }
  Normalise(rows, args.signature.Spec(X()).dtype, x,
            {args.Get<float>(Param(0)), args.Get<float>(Param(1)), args.Get<float>(Saved(0)),
             args.Get<float>(Saved(1))},
            args.Find<float>(X(1)), FusedBatchNormOf(args.signature.layer).relu,
            args.Get<float>(Y()));
}

void InferenceForward(const LoopArgs& args) {
  const Rows rows = RowsOf(args.signature.Spec(X()));
  const FusedBatchNorm layer = FusedBatchNormOf(args.signature.layer);
  const float* const running_var = args.Get<float>(State(1));
  float* const invstd = args.Workspace<float>();
  for (int64_t c = 0; c < rows.channels; ++c) {
    invstd[c] = InverseDeviation(static_cast<double>(running_var[c]), layer.norm.epsilon);
  }
  Normalise(
      rows, args.signature.Spec(X()).dtype, args.Get<float>(X()),
      {args.Get<float>(Param(0)), args.Get<float>(Param(1)), args.Get<float>(State(0)), invstd},
      args.Find<float>(X(1)), layer.relu, args.Get<float>(Y()));
}

// The gradient that reaches the normalisation is dy, or 0 where the ReLU's result is. After a sum,
// it is also the addend's gradient, and written there first.
//
// dbeta = sum dz; dgamma = sum dz * xhat; dx = gamma invstd (dz - dbeta / n - xhat dgamma / n),
// where dz is that gradient, and xhat the normalised x.
template <typename Gradient>
void BackwardFrom(const LoopArgs& args, Gradient dz) {
  const Rows rows = RowsOf(args.signature.Spec(X()));
  const float* const x = args.Get<float>(X());
  const float* const gamma = args.Get<float>(Param(0));
  const float* const mean = args.Get<float>(Saved(0));
  const float* const invstd = args.Get<float>(Saved(1));
  double* const sum_dz = args.Workspace<double>();
  double* const sum_dz_xhat = sum_dz + rows.channels;
  SumPerChannel(rows, sum_dz, [=](int64_t i, int64_t c) { return static_cast<double>(dz(i, c)); });
  SumPerChannel(rows, sum_dz_xhat, [=](int64_t i, int64_t c) {
    return static_cast<double>(dz(i, c) * ((x[i] - mean[c]) * invstd[c]));
  });

  float* const dgamma = args.Get<float>(ParamGrad(0));
  float* const dbeta = args.Get<float>(ParamGrad(1));
  float* const mean_dz = reinterpret_cast<float*>(sum_dz_xhat + rows.channels);
  float* const mean_dz_xhat = mean_dz + rows.channels;
  const double count = static_cast<double>(rows.count());
  for (int64_t c = 0; c < rows.channels; ++c) {
    dgamma[c] = static_cast<float>(sum_dz_xhat[c]);
    dbeta[c] = static_cast<float>(sum_dz[c]);
    mean_dz[c] = static_cast<float>(sum_dz[c] / count);
    mean_dz_xhat[c] = static_cast<float>(sum_dz_xhat[c] / count);
  }
  float* const dx = args.Get<float>(Dx());
  ForEachElement(rows, [=](int64_t i, int64_t c) {
    const float xhat = (x[i] - mean[c]) * invstd[c];
    dx[i] = gamma[c] * invstd[c] * (dz(i, c) - mean_dz[c] - xhat * mean_dz_xhat[c]);
  });
}

void Backward(const LoopArgs& args) {
  const float* const dy = args.Get<float>(Dy());
  const bool relu = FusedBatchNormOf(args.signature.layer).relu;
  if (float* const daddend = args.Find<float>(Dx(1)); daddend != nullptr) {
    const float* const y = args.Find<float>(Y());
    const int64_t elements = args.signature.Spec(Dy()).elements();
    for (int64_t i = 0; i < elements; ++i) daddend[i] = relu && y[i] <= 0 ? 0 : dy[i];
    BackwardFrom(args, [daddend](int64_t i, int64_t) { return daddend[i]; });
  } else if (relu) {
    const float* const x = args.Get<float>(X());
    const Normalisation normalised = {args.Get<float>(Param(0)), args.Get<float>(Param(1)),
                                      args.Get<float>(Saved(0)), args.Get<float>(Saved(1))};
    RoundAs(args.signature.Spec(X()).dtype, [&](auto round) {
      BackwardFrom(
          args, [=](int64_t i, int64_t c) { return round(normalised(x[i], c)) <= 0 ? 0 : dy[i]; });
    });
  } else {
    BackwardFrom(args, [dy](int64_t i, int64_t) { return dy[i]; });
  }
}

int64_t PerChannelBytes(const StepSignature& signature, size_t bytes) {
  return signature.Spec(X()).shape.c() * static_cast<int64_t>(bytes);
}

}  // namespace

absl::StatusOr<Candidates> BatchNormForward(const StepSignature& signature) {
  if (signature.mode == Mode::kInference) {
    return OwnLoop(signature, InferenceForward, PerChannelBytes(signature, sizeof(float)));
  }
  if (signature.rerun) return OwnLoop(signature, TrainingForward);
  return OwnLoop(signature, TrainingForward, PerChannelBytes(signature, 2 * sizeof(double)));
}

absl::StatusOr<Candidates> BatchNormBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward,
                 PerChannelBytes(signature, 2 * sizeof(double) + 2 * sizeof(float)));
}

}  // namespace neap::cpu
