#include "neap/layers/fusion/sync_batch_norm.h"

#include <algorithm>

#include "neap/layers/cpu/norm/batch_norm_loops.h"

namespace neap::cpu {
namespace {

using namespace operands;

void StatisticsForward(const LoopArgs& args) {
  const ChannelPart part = WholeOf(args.signature.Spec(X()));
  const int64_t channels = part.rows.channels;
  float* const statistics = args.Get<float>(Y());
  double* const mean = args.Workspace<double>();
  double* const squares = mean + channels;
  Moments(part, args.Get<float>(X()), mean, squares);
  std::fill_n(statistics, args.signature.Spec(Y()).elements(), 0.0F);
  const auto row =
      RowOf(statistics, args.signature.layer.As<BatchNormStatistics>()->rank, channels);
  *row.count = static_cast<float>(part.rows.count());
  for (int64_t c = 0; c < channels; ++c) {
    row.mean[c] = static_cast<float>(mean[c]);
    row.squares[c] = static_cast<float>(squares[c]);
  }
}

void StatisticsBackward(const LoopArgs& args) {
  const ChannelPart part = WholeOf(args.signature.Spec(X()));
  const int64_t channels = part.rows.channels,
                rank = args.signature.layer.As<BatchNormStatistics>()->rank;
  const float* const x = args.Get<float>(X());
  const float* const mean = RowOf(args.Get<float>(Y()), rank, channels).mean;
  const auto gradient = RowOf(args.Get<float>(Dy()), rank, channels);
  const auto count = static_cast<float>(part.rows.count());
  float* const dx = args.Get<float>(Dx());
  const bool adds = args.signature.Accumulates(Dx());
  ForEachElement(part, [=](int64_t i, int64_t c, int64_t) {
    const float d = gradient.mean[c] / count + 2 * gradient.squares[c] * (x[i] - mean[c]);
    dx[i] = adds ? dx[i] + d : d;
  });
}

// Statistics of several ranks' values: number, mean and sum of squared deviations from it.
struct Combined {
  double count = 0, mean = 0, squares = 0;
  void Add(double other_count, double other_mean, double other_squares) {
    const double whole = count + other_count, d = other_mean - mean;
    squares += other_squares + d * d * count * other_count / whole;
    mean += d * other_count / whole;
    count = whole;
  }
};

// The statistics of the ranks before `ranks`.
Combined CombinedOf(float* statistics, int64_t ranks, int64_t channels, int64_t c) {
  Combined combined;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto row = RowOf(statistics, rank, channels);
    combined.Add(static_cast<double>(*row.count), static_cast<double>(row.mean[c]),
                 static_cast<double>(row.squares[c]));
  }
  return combined;
}

Norm NormOf(const LoopArgs& args) {
  return {args.signature.layer.As<BatchNormApply>()->norm, 0, 0,
          WholeOf(args.signature.Spec(X(0)))};
}

// Writes the saved mean and invstd, and updates the running statistics.
void Combine(const LoopArgs& args, const Norm& norm) {
  const int64_t channels = norm.part.rows.channels, ranks = args.signature.Spec(X(1)).shape.n();
  float* const mean = args.Get<float>(Saved(0));
  float* const invstd = args.Get<float>(Saved(1));
  double* const variance = args.Workspace<double>();
  double count = 0;
  for (int64_t c = 0; c < channels; ++c) {
    const Combined combined = CombinedOf(args.Get<float>(X(1)), ranks, channels, c);
    count = combined.count;
    variance[c] = combined.squares / count;
    mean[c] = static_cast<float>(combined.mean);
    invstd[c] = InverseDeviation(variance[c], norm.layer.epsilon);
  }
  UpdateRunning(args, norm, variance, count);
}

// Forward and its rerun both call this function, so they give the same bits.
[[gnu::noinline]] void Normalise(const LoopArgs& args, const Norm& norm) {
  const Normalisation normalised = NormalisationOf(args, norm);
  const float* const x = args.Get<float>(X(0));
  float* const y = args.Get<float>(Y());
  ForEachElement(norm.part, [=](int64_t i, int64_t c, int64_t) { y[i] = normalised(x[i], c); });
}

void ApplyForward(const LoopArgs& args) {
  const Norm norm = NormOf(args);
  if (!args.signature.rerun) Combine(args, norm);
  Normalise(args, norm);
}

// Writes what this rank's values contribute to the gradients of all rows. The values depend on the
// rows through mean = sum n_r mean_r / n and through the sum of squares, sum squares_r + n_r
// (mean_r - mean)^2, by which invstd changes.
void WriteRowGradients(const LoopArgs& args, const Norm& norm, const double* sum_dy,
                       const double* sum_dy_xhat) {
  const int64_t channels = norm.part.rows.channels, ranks = args.signature.Spec(X(1)).shape.n();
  float* const statistics = args.Get<float>(X(1));
  std::fill_n(args.Get<float>(Dx(1)), args.signature.Spec(Dx(1)).elements(), 0.0F);
  double count = 0;
  for (int64_t rank = 0; rank < ranks; ++rank)
    count += static_cast<double>(*RowOf(statistics, rank, channels).count);
  const float* const gamma = args.Get<float>(Param(0));
  const float* const mean = args.Get<float>(Saved(0));
  const float* const invstd = args.Get<float>(Saved(1));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto row = RowOf(statistics, rank, channels);
    const auto gradient = RowOf(args.Get<float>(Dx(1)), rank, channels);
    const auto row_count = static_cast<double>(*row.count);
    for (int64_t c = 0; c < channels; ++c) {
      const double scale = static_cast<double>(invstd[c]) * static_cast<double>(gamma[c]);
      const double d_mean = -scale * sum_dy[c];
      const double d_squares =
          -scale * static_cast<double>(invstd[c]) * sum_dy_xhat[c] / (2 * count);
      const double distance = static_cast<double>(row.mean[c]) - static_cast<double>(mean[c]);
      gradient.mean[c] =
          static_cast<float>(row_count * (d_mean / count + 2 * d_squares * distance));
      gradient.squares[c] = static_cast<float>(d_squares);
    }
  }
}

void ApplyBackward(const LoopArgs& args) {
  const Norm norm = NormOf(args);
  const float* const dy = args.Get<float>(Dy());
  double* const sum_dy = args.Workspace<double>();
  double* const sum_dy_xhat = sum_dy + norm.part.rows.channels;
  SumGradients(
      args, norm, [dy](int64_t i, int64_t, int64_t) { return dy[i]; }, sum_dy, sum_dy_xhat);
  WriteRowGradients(args, norm, sum_dy, sum_dy_xhat);
  const float* const gamma = args.Get<float>(Param(0));
  const float* const invstd = args.Get<float>(Saved(1));
  float* const dx = args.Get<float>(Dx(0));
  ForEachElement(norm.part,
                 [=](int64_t i, int64_t c, int64_t) { dx[i] = invstd[c] * gamma[c] * dy[i]; });
}

int64_t TwoSumsBytes(const StepSignature& signature) {
  return 2 * signature.Spec(X()).shape.c() * static_cast<int64_t>(sizeof(double));
}

}  // namespace

absl::StatusOr<Candidates> BatchNormStatisticsForward(const StepSignature& signature) {
  return OwnLoop(signature, StatisticsForward, TwoSumsBytes(signature));
}

absl::StatusOr<Candidates> BatchNormStatisticsBackward(const StepSignature& signature) {
  return OwnLoop(signature, StatisticsBackward);
}

absl::StatusOr<Candidates> BatchNormApplyForward(const StepSignature& signature) {
  return OwnLoop(signature, ApplyForward, signature.rerun ? 0 : TwoSumsBytes(signature) / 2);
}

absl::StatusOr<Candidates> BatchNormApplyBackward(const StepSignature& signature) {
  return OwnLoop(signature, ApplyBackward, TwoSumsBytes(signature));
}

}  // namespace neap::cpu
