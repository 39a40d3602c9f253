#include "neap/layers/norm/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/steps/axis_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

// So many neighbouring vectors are computed at once.
constexpr int64_t kVectors = 64;

// Calls f(first, count) for all vectors, of which `count`, that are neighbours in memory, have
// their first elements at `first`, first + 1, ...
template <typename F>
void ForEachVectors(const AxisRows& rows, F f) {
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (int64_t i = 0; i < rows.inner; i += kVectors)
      f(o * rows.length * rows.inner + i, std::min(kVectors, rows.inner - i));
  }
}

void SoftmaxForwardLoop(const LoopArgs& args) {
  const Softmax& layer = *args.signature.layer.As<Softmax>();
  const AxisRows rows = AxisRowsOf(args.signature.Spec(X()), static_cast<int>(layer.axis));
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  ForEachVectors(rows, [&](int64_t first, int64_t count) {
    float largest[kVectors];
    double sums[kVectors] = {};
    std::fill_n(largest, count, -std::numeric_limits<float>::infinity());
    const int64_t end = first + rows.length * rows.inner;
    for (int64_t at = first; at < end; at += rows.inner) {
      for (int64_t i = 0; i < count; ++i) largest[i] = std::max(largest[i], x[at + i]);
    }
    for (int64_t at = first; at < end; at += rows.inner) {
      for (int64_t i = 0; i < count; ++i)
        sums[i] += static_cast<double>(std::exp(x[at + i] - largest[i]));
    }
    for (int64_t at = first; at < end; at += rows.inner) {
      for (int64_t i = 0; i < count; ++i) {
        const float shifted = x[at + i] - largest[i];
        const auto sum = static_cast<float>(sums[i]);
        y[at + i] = layer.logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
      }
    }
  });
}

void SoftmaxBackwardLoop(const LoopArgs& args) {
  const Softmax& layer = *args.signature.layer.As<Softmax>();
  const AxisRows rows = AxisRowsOf(args.signature.Spec(Y()), static_cast<int>(layer.axis));
  const float* const y = args.Get<float>(Y());
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  ForEachVectors(rows, [&](int64_t first, int64_t count) {
    double sums[kVectors] = {};
    const int64_t end = first + rows.length * rows.inner;
    for (int64_t at = first; at < end; at += rows.inner) {
      for (int64_t i = 0; i < count; ++i) {
        const double gradient = static_cast<double>(dy[at + i]);
        sums[i] += layer.logarithm ? gradient : gradient * static_cast<double>(y[at + i]);
      }
    }
    for (int64_t at = first; at < end; at += rows.inner) {
      for (int64_t i = 0; i < count; ++i) {
        const auto sum = static_cast<float>(sums[i]);
        dx[at + i] = layer.logarithm ? dy[at + i] - std::exp(y[at + i]) * sum
                                     : y[at + i] * (dy[at + i] - sum);
      }
    }
  });
}

}  // namespace

absl::StatusOr<Candidates> SoftmaxAxisSteps(const StepSignature& signature) {
  return OwnLoop(signature,
                 signature.phase == Phase::kForward ? SoftmaxForwardLoop : SoftmaxBackwardLoop);
}

}  // namespace neap::cpu
