#include "tests/nets/onnx/reference_norms.h"

#include <cmath>

namespace neap::testing::reference {
namespace {

// Elements of an image are normalised with those of the same set, set_of(channel, position).
template <typename SetOf>
T NormalisedInSets(const Run& run, int64_t sets, const SetOf& set_of) {
  T y = run.in[0];
  const int64_t channels = y.dims[1], positions = Count(y.dims) / y.dims[0] / channels;
  const std::vector<double>& scale = run.in[1].values;
  for (int64_t n = 0; n < y.dims[0]; ++n) {
    const auto each = [&](const auto& visit) {
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t p = 0; p < positions; ++p)
          visit(y.values[static_cast<size_t>((n * channels + c) * positions + p)], c,
                static_cast<size_t>(set_of(c, p)));
    };
    const auto size = static_cast<size_t>(sets);
    const double count = static_cast<double>(channels * positions) / static_cast<double>(sets);
    std::vector<double> mean(size), variance(size);
    each([&](double x, int64_t, size_t set) { mean[set] += x / count; });
    each([&](double x, int64_t, size_t set) {
      variance[set] += (x - mean[set]) * (x - mean[set]) / count;
    });
    each([&](double& x, int64_t c, size_t set) {
      const auto at = static_cast<size_t>(c);
      const double bias = run.in.size() > 2 ? run.in[2].values[at] : 0;
      x = (x - mean[set]) / std::sqrt(variance[set] + run.Float("epsilon", 1e-5)) * scale[at] +
          bias;
    });
  }
  return y;
}

}  // namespace

T InstanceNormalization(const Run& run) {
  return NormalisedInSets(run, run.in[0].dims[1], [](int64_t c, int64_t) { return c; });
}

T GroupNormalization(const Run& run) {
  const int64_t groups = run.Int("num_groups", 0), of_group = run.in[0].dims[1] / groups;
  return NormalisedInSets(run, groups, [&](int64_t c, int64_t) { return c / of_group; });
}

T LayerNormalization(const Run& run) {
  const Dims& dims = run.in[0].dims;
  return NormalisedInSets(run, Count(dims) / dims[0] / dims[1],
                          [](int64_t, int64_t p) { return p; });
}

}  // namespace neap::testing::reference
