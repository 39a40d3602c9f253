// Batch normalisation by the statistics of the images of all ranks of data parallelism, as
// torch.nn.SyncBatchNorm, in two layers (core/program/span_ranks.h).
//
//   layer, step                      reads                                      writes
//   batch_norm_statistics, forward   x                                          statistics
//     backward_data                  x, statistics, dstatistics                 dx, added
//   batch_norm_apply, forward        x, statistics, gamma, beta                 y, mean, invstd
//     rerun                          x, gamma, beta, mean, invstd               y
//     backward_data                  x, statistics, dy, gamma, mean, invstd     dx, dstatistics,
//                                                                               dgamma, dbeta
//
// `statistics` are fp32 {ranks, 4 + 2 C}. Each rank writes its row, and 0 in the rows of others:
//
//   values per channel, 0, 0, 0 | C means | C sums of squared deviations from the mean
//
// The sum over the ranks therefore is exact, in any order, and gives all ranks all rows. All of
// them combine these in the order of the ranks (Chan, Golub and LeVeque, "Updating formulae and a
// pairwise algorithm for computing sample variances", 1979), so they have the same bits. Means and
// variances are those of the whole batch up to rounding, however it is divided.
//
// dstatistics are what this rank's images contribute to the gradient of each row, which the ranks
// sum, too. (Numbers of values have none.) dx is a sum of two: batch_norm_apply writes
// gamma invstd dy, as if the statistics were constant, and batch_norm_statistics adds
//
//   dmean / n + 2 dsquares (x - mean)        of the rank's own row, with n values
//
// Together they read and write x, y, dx and dy nine times in an iteration, instead of eight, and
// round a 16-bit dx twice. dgamma and dbeta are those of the rank's images, as all gradients of
// parameters.
//
// batch_norm_apply has the parameters, the states and the saved tensors of layers/batch_norm.h. Its
// running statistics follow from the sums, so they are equal on all ranks. Neither layer is fused.
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"
#include "neap/layers/batch_norm.h"

namespace neap {

struct BatchNormStatistics {
  static constexpr std::string_view kType = "batch_norm_statistics";
  int rank = 0;  // the row that it writes
  int ranks = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const BatchNormStatistics&, const BatchNormStatistics&) = default;
};

// A layer of training only, whatever LayerContext::mode is.
struct BatchNormApply {
  static constexpr std::string_view kType = "batch_norm_apply";
  BatchNorm norm = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return norm.Parameters(); }
  friend bool operator==(const BatchNormApply&, const BatchNormApply&) = default;
};

// A row of statistics, or of their gradient, for C channels. Before the means is their number of
// values, in as many bytes as GPUs read at once.
inline constexpr int64_t kBeforeMeans = 4;
inline constexpr int64_t RowLength(int64_t channels) { return kBeforeMeans + 2 * channels; }
template <typename Number>
struct StatisticsRow {
  Number* count;    // of values per channel
  Number* mean;     // {C}
  Number* squares;  // {C}: sums of squared deviations from the mean
};
template <typename Number>
StatisticsRow<Number> RowOf(Number* statistics, int64_t rank, int64_t channels) {
  Number* const row = statistics + rank * RowLength(channels);
  return {row, row + kBeforeMeans, row + kBeforeMeans + channels};
}

}  // namespace neap
