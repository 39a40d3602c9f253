// A concatenation along the channels whose parts are batch norms, each perhaps with a ReLU, that
// store their results in the concatenation instead of tensors of their own:
//
//   y = concat(relu(batch_norm(x_0)), batch_norm(x_1), x_2, ...), in any order
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a Concat and the
// BatchNorms, or NormPass layers with nothing but a ReLU, whose outputs it alone reads. The results
// have the bits of the layers that it replaces. It is not made of NormPass layers that end in
// slices, because several steps would then each write a part of one tensor, and a step declares
// whole tensors.
//
//   step                 reads                                            writes
//   forward (training)   x_i, gamma_i, beta_i                             y, mean_i, invstd_i
//     rerun              x_i, gamma_i, beta_i, mean_i, invstd_i           y
//   forward (inference)  x_i, gamma_i, beta_i, running statistics         y
//   backward_data        x_i, dy, gamma_i, [beta_i], mean_i, invstd_i     dx_i, dgamma_i, dbeta_i
//
// The first inputs are those that are normalised. Backward reads only these, and beta_i only for a
// ReLU; it writes dx_i of all, and adds to a dx_i that already holds a partial sum. In training,
// forward also accumulates the running statistics.
//
// params: 2 i weight (gamma), 2 i + 1 bias (beta) of input i; states: 2 i running_mean, 2 i + 1
// running_var; saved: 2 i mean, 2 i + 1 invstd. All are {channels of x_i}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/step/layer.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/batch_norm.h"

namespace neap {

struct ConcatBatchNorms {
  static constexpr std::string_view kType = "concat_batch_norms";
  struct Part {
    BatchNorm norm = {};
    bool relu = false;
    int position = 0;  // among all parts of the concatenation
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;  // of inputs 0 .. parts.size() - 1; further inputs are not normalised
  // Errors: INVALID_ARGUMENT also for two parts in one position, or a position without an input.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ConcatBatchNorms&, const ConcatBatchNorms&) = default;
};

// Position `number`, from 0, of those in the concatenation that no part has: where the inputs are
// that are not normalised, in their order.
int FreePosition(const ConcatBatchNorms& layer, size_t number);

// The place of an input in the concatenation.
struct ConcatInput {
  const ConcatBatchNorms::Part* part = nullptr;  // null if it is not normalised
  int64_t channels = 0;
  int64_t first = 0;  // channel of the concatenation
};
// The places by input, for the channels of each. The parts are those of `layer`.
std::vector<ConcatInput> ConcatInputs(const ConcatBatchNorms& layer,
                                      const std::vector<int64_t>& channels);
// The inputs of a step, whose layer must live as long.
std::vector<ConcatInput> ConcatInputs(const ConcatBatchNorms& layer,
                                      const StepSignature& signature);

}  // namespace neap
