// Constants whose elements are sums, means or products over others: reductions of axes, matrix
// products, batch norms and running sums. Each is computed in fp64 and rounded once, to its type.
//
//   ASSIGN_OR_RETURN(Constant means, Reduced("ReduceMean", weight, {1, 2, 3}));
//   return means.dims;  // {64, 1, 1, 1}
//
// *Errors*: UNIMPLEMENTED for an operator that is not computed; INVALID_ARGUMENT for extents that
// do not fit.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/onnx_tensor.h"

namespace neap::nets {

// Whether Reduced() has the operator.
bool IsReduction(std::string_view op);
// The array with an extent of 1 in the place of each of the axes, which must be within it.
absl::StatusOr<Constant> Reduced(std::string_view op, const Constant& from, const Dims& axes);

// ONNX's MatMul of arrays of two axes or more: both operands with the axes before the last two that
// the product has.
struct ProductDims {
  Dims left, right, product;  // {..., M, K}, {..., K, N}, {..., M, N}
};
absl::StatusOr<ProductDims> DimsOfProduct(const Dims& a, const Dims& b);
absl::StatusOr<Constant> MatrixProduct(const Constant& a, const Constant& b,
                                       const ProductDims& dims);

// The sums of the elements up to each one along an axis, with it or, if `exclusive`, without it.
absl::StatusOr<Constant> RunningSums(const Constant& from, size_t axis, bool exclusive);

// scale (x - mean) / sqrt(variance + epsilon) of each entry along axis 1, with one number for each
// of these in the four vectors.
struct BatchStatistics {
  Constant scale, bias, mean, variance;
  double epsilon = 1e-5;
};
absl::StatusOr<Constant> Normalised(const Constant& x, const BatchStatistics& statistics);

}  // namespace neap::nets
