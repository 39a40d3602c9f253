#include "neap/nets/onnx/constants/constant_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/tensor.h"
#include "neap/nets/onnx/constants/constant_math.h"

namespace neap::nets {
namespace {

struct Reduction {
  std::string_view op;
  double begin;
  double (*add)(double sum, double x);
  double (*end)(double sum, double count);
};

double Sum(double sum, double x) { return sum + x; }
double AsItIs(double sum, double /*count*/) { return sum; }

constexpr Reduction kReductions[] = {
    {"ReduceL1", 0, [](double sum, double x) { return sum + std::abs(x); }, AsItIs},
    {"ReduceL2", 0, [](double sum, double x) { return sum + x * x; },
     [](double sum, double) { return std::sqrt(sum); }},
    {"ReduceMax", -HUGE_VAL, [](double sum, double x) { return x < sum ? sum : x; }, AsItIs},
    {"ReduceMean", 0, Sum, [](double sum, double count) { return sum / count; }},
    {"ReduceMin", HUGE_VAL, [](double sum, double x) { return x > sum ? sum : x; }, AsItIs},
    {"ReduceProd", 1, [](double sum, double x) { return sum * x; }, AsItIs},
    {"ReduceSum", 0, Sum, AsItIs},
    {"ReduceSumSquare", 0, [](double sum, double x) { return sum + x * x; }, AsItIs},
};

const Reduction* FindReduction(std::string_view op) {
  const auto* const found = std::find_if(std::begin(kReductions), std::end(kReductions),
                                         [&](const Reduction& known) { return known.op == op; });
  return found == std::end(kReductions) ? nullptr : found;
}

// As elements of the type, rounded.
absl::StatusOr<Constant> InItsType(const Constant& computed) {
  return Cast(computed, computed.type);
}

Dims WithoutLastTwo(const Dims& dims) { return {dims.begin(), dims.end() - 2}; }

Dims WithLastTwo(Dims dims, int64_t rows, int64_t columns) {
  dims.push_back(rows);
  dims.push_back(columns);
  return dims;
}

// Whether the constant has `count` elements.
bool HasElements(const Constant& constant, int64_t count) {
  return std::ssize(constant.values) == count;
}

}  // namespace

bool IsReduction(std::string_view op) { return FindReduction(op) != nullptr; }

absl::StatusOr<Constant> Reduced(std::string_view op, const Constant& from, const Dims& axes) {
  const Reduction* const reduction = FindReduction(op);
  if (reduction == nullptr) return NotComputed("by this operator");
  Constant result = {.dims = from.dims, .values = {}, .type = from.type};
  for (const int64_t axis : axes) result.dims[static_cast<size_t>(axis)] = 1;
  // Floats have an infinity or NaN for the greatest, least or mean of nothing.
  if (from.values.empty() && IsInteger(from.type) &&
      !std::isfinite(reduction->end(reduction->begin, 0)))
    return NotComputed("by this operator, of no elements that are no floats");
  int64_t count = 1;
  for (const int64_t extent : result.dims) count *= extent;
  result.values.assign(static_cast<size_t>(count), reduction->begin);
  Dims strides = StridesOf(result.dims);
  for (const int64_t axis : axes) strides[static_cast<size_t>(axis)] = 0;
  Dims index(from.dims.size(), 0);
  int64_t position = 0;
  for (const double value : from.values) {
    double& sum = result.values[static_cast<size_t>(position)];
    sum = reduction->add(sum, value);
    for (size_t axis = index.size(); axis-- > 0;) {
      position += strides[axis];
      if (++index[axis] < from.dims[axis]) break;
      position -= strides[axis] * from.dims[axis];
      index[axis] = 0;
    }
  }
  const double reduced = static_cast<double>(from.values.size()) / static_cast<double>(count);
  for (double& value : result.values) value = reduction->end(value, reduced);
  return InItsType(result);
}

absl::StatusOr<ProductDims> DimsOfProduct(const Dims& a, const Dims& b) {
  if (a.size() < 2 || b.size() < 2) return NotComputed("by a matrix product with a vector");
  const int64_t rows = a[a.size() - 2], inner = a.back(), columns = b.back();
  const std::optional<Dims> outer = BroadcastDims(WithoutLastTwo(a), WithoutLastTwo(b));
  if (b[b.size() - 2] != inner || !outer.has_value())
    return absl::InvalidArgumentError("it multiplies constants of extents that do not fit");
  return ProductDims{.left = WithLastTwo(*outer, rows, inner),
                     .right = WithLastTwo(*outer, inner, columns),
                     .product = WithLastTwo(*outer, rows, columns)};
}

absl::StatusOr<Constant> MatrixProduct(const Constant& a, const Constant& b,
                                       const ProductDims& dims) {
  const int64_t rows = a.dims[a.dims.size() - 2], inner = a.dims.back(), columns = b.dims.back();
  int64_t all_rows = 1;
  for (auto extent = dims.product.begin(); extent + 1 != dims.product.end(); ++extent)
    all_rows = SaturatingProduct(all_rows, *extent);
  const Constant left = BroadcastTo(a, dims.left), right = BroadcastTo(b, dims.right);
  Constant result = {.dims = dims.product, .values = {}, .type = a.type};
  result.values.assign(static_cast<size_t>(all_rows * columns), 0);
  for (int64_t row = 0; row < all_rows && columns > 0; ++row) {
    double* const sums = result.values.data() + row * columns;
    for (int64_t i = 0; i < inner; ++i) {
      const double factor = left.values[static_cast<size_t>(row * inner + i)];
      const double* const others = right.values.data() + (row / rows * inner + i) * columns;
      for (int64_t column = 0; column < columns; ++column) sums[column] += factor * others[column];
    }
  }
  return InItsType(result);
}

absl::StatusOr<Constant> RunningSums(const Constant& from, size_t axis, bool exclusive) {
  Constant sums = from;
  const int64_t extent = from.dims[axis], stride = StridesOf(from.dims)[axis];
  for (int64_t i = 0; i < std::ssize(from.values); ++i) {
    const bool is_first = i / stride % extent == 0;
    const auto at = static_cast<size_t>(i), before = static_cast<size_t>(i - stride);
    if (exclusive) {
      sums.values[at] = is_first ? 0 : sums.values[before] + from.values[before];
    } else if (!is_first) {
      sums.values[at] += sums.values[before];
    }
  }
  return InItsType(sums);
}

absl::StatusOr<Constant> Normalised(const Constant& x, const BatchStatistics& statistics) {
  const auto& [scale, bias, mean, variance, epsilon] = statistics;
  if (x.dims.size() < 2) return absl::InvalidArgumentError("it normalises a vector");
  const int64_t channels = x.dims[1], run = StridesOf(x.dims)[1];
  if (!HasElements(scale, channels) || !HasElements(bias, channels) ||
      !HasElements(mean, channels) || !HasElements(variance, channels))
    return absl::InvalidArgumentError("its parameters do not have the extent of its channels");
  Constant result = x;
  for (int64_t i = 0; i < std::ssize(x.values); ++i) {
    const auto channel = static_cast<size_t>(i / run % channels);
    double& value = result.values[static_cast<size_t>(i)];
    value = (value - mean.values[channel]) / std::sqrt(variance.values[channel] + epsilon) *
                scale.values[channel] +
            bias.values[channel];
  }
  return InItsType(result);
}

}  // namespace neap::nets
