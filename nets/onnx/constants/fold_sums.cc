#include "neap/nets/onnx/constants/fold_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/tensor.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/constants/constant_math.h"
#include "neap/nets/onnx/constants/constant_sums.h"
#include "neap/nets/onnx/node_axes.h"

namespace neap::nets {
namespace {

// The product of two constants, with what it takes counted: one number and 16 products take about
// as long.
absl::StatusOr<Constant> CountedProduct(NetworkBuilder& network, const Constant& a,
                                        const Constant& b) {
  ASSIGN_OR_RETURN(const ProductDims dims, DimsOfProduct(a.dims, b.dims));
  for (const Dims* const counted : {&dims.left, &dims.right, &dims.product})
    RETURN_IF_ERROR(network.CountConstant(*counted));
  Dims products = dims.product;
  products.push_back(dims.left.back());
  constexpr int64_t kProducts = 16;
  int64_t count = 1;
  for (const int64_t extent : products) count = SaturatingProduct(count, extent);
  RETURN_IF_ERROR(network.CountConstant({count / kProducts}));
  return MatrixProduct(a, b, dims);
}

}  // namespace

absl::StatusOr<Constant> FoldReduce(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(Dims axes, ReducedAxes(node, std::ssize(data.dims)));
  const bool keeps = node.Int("keepdims", 1) != 0;
  if (axes.empty() && node.Int("noop_with_empty_axes", 0) != 0) return data;
  if (axes.empty()) {
    axes.resize(data.dims.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  RETURN_IF_ERROR(network.CountConstant(data.dims));
  Dims reduced = data.dims;
  for (const int64_t axis : axes) reduced[static_cast<size_t>(axis)] = 1;
  RETURN_IF_ERROR(network.CountConstant(reduced));
  ASSIGN_OR_RETURN(Constant result, Reduced(node.op(), data, axes));
  for (auto axis = axes.rbegin(); !keeps && axis != axes.rend(); ++axis)
    result.dims.erase(result.dims.begin() + *axis);
  return result;
}

absl::StatusOr<Constant> FoldMatMul(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant a, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant b, node.Constant(1));
  return CountedProduct(network, a, b);
}

absl::StatusOr<Constant> FoldGemm(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant a, node.Constant(0));
  ASSIGN_OR_RETURN(Constant b, node.Constant(1));
  if (a.dims.size() != 2 || b.dims.size() != 2)
    return absl::InvalidArgumentError("it multiplies constants that are no matrices");
  const bool is_plain =
      node.Int("transA", 0) == 0 && node.Float("alpha", 1) == 1 && node.Float("beta", 1) == 1;
  if (!is_plain)
    return NotComputed("by a Gemm whose 'transA' is not 0, or whose 'alpha' or 'beta' is not 1");
  if (node.Int("transB", 0) != 0) b = View(b, {b.dims[1], b.dims[0]}, {1, b.dims[1]});
  ASSIGN_OR_RETURN(Constant y, CountedProduct(network, a, b));
  if (!node.HasInput(2)) return y;
  ASSIGN_OR_RETURN(const Constant c, node.Constant(2));
  if (BroadcastDims(c.dims, y.dims) != y.dims)
    return absl::InvalidArgumentError("its C has other extents than its product");
  return Elementwise(network.budget(), "Add", {y, c});
}

absl::StatusOr<Constant> FoldConv(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(Constant x, node.Constant(0));
  ASSIGN_OR_RETURN(Constant weight, node.Constant(1));
  const Dims dims = x.dims;
  const auto is_one = [](int64_t extent) { return extent == 1; };
  const auto is_zero = [](int64_t pad) { return pad == 0; };
  const Dims strides = node.Ints("strides", {}), dilations = node.Ints("dilations", {});
  const Dims pads = node.Ints("pads", {}), kernel = node.Ints("kernel_shape", {});
  node.String("auto_pad", "NOTSET");  // pads nothing beside one pixel either way
  const bool is_of_pixels = dims.size() >= 3 && weight.dims.size() == dims.size() &&
                            node.Int("group", 1) == 1 &&
                            std::all_of(weight.dims.begin() + 2, weight.dims.end(), is_one) &&
                            std::all_of(strides.begin(), strides.end(), is_one) &&
                            std::all_of(pads.begin(), pads.end(), is_zero);
  if (!is_of_pixels) return NotComputed("by a convolution of more than one pixel");
  x.dims = {dims[0], dims[1], StridesOf(dims)[1]};
  weight.dims.resize(2);
  Dims result = dims;
  result[1] = weight.dims[0];
  ASSIGN_OR_RETURN(Constant y, CountedProduct(network, weight, x));
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(Constant bias, node.Constant(2));
    if (bias.dims != Dims{weight.dims[0]})
      return absl::InvalidArgumentError("its bias has other extents than its channels");
    bias.dims.push_back(1);
    ASSIGN_OR_RETURN(y, Elementwise(network.budget(), "Add", {y, bias}));
  }
  y.dims = std::move(result);
  return y;
}

absl::StatusOr<Constant> FoldCumSum(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const double given, node.Scalar(1, 0));
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(ToInteger(given), std::ssize(data.dims)));
  if (node.Int("reverse", 0) != 0) return NotComputed("by sums from the end");
  RETURN_IF_ERROR(network.CountConstant(data.dims));
  return RunningSums(data, axis, node.Int("exclusive", 0) != 0);
}

absl::StatusOr<Constant> FoldBatchNorm(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant x, node.Constant(0));
  BatchStatistics statistics;
  statistics.epsilon = static_cast<double>(node.Float("epsilon", 1e-5F));
  node.Float("momentum", 0.9F);  // of running statistics, which nothing reads
  ASSIGN_OR_RETURN(statistics.scale, node.Constant(1));
  ASSIGN_OR_RETURN(statistics.bias, node.Constant(2));
  ASSIGN_OR_RETURN(statistics.mean, node.Constant(3));
  ASSIGN_OR_RETURN(statistics.variance, node.Constant(4));
  RETURN_IF_ERROR(network.CountConstant(x.dims));
  if (node.Int("training_mode", 0) == 0 || x.dims.size() < 2) return Normalised(x, statistics);
  Dims axes;
  for (int64_t axis = 0; axis < std::ssize(x.dims); ++axis) {
    if (axis != 1) axes.push_back(axis);
  }
  ASSIGN_OR_RETURN(statistics.mean, Reduced("ReduceMean", x, axes));
  ASSIGN_OR_RETURN(const Constant centred,
                   Elementwise(network.budget(), "Sub", {x, statistics.mean}));
  ASSIGN_OR_RETURN(const Constant squares,
                   Elementwise(network.budget(), "Mul", {centred, centred}));
  ASSIGN_OR_RETURN(statistics.variance, Reduced("ReduceMean", squares, axes));
  return Normalised(x, statistics);
}

}  // namespace neap::nets
