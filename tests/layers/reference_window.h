// The float64 reference of the layers with a sliding window, and of fully connected layers, whose
// window is as large as the image.
#pragma once

#include <string>
#include <vector>

#include "neap/layers/pooling.h"
#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceConvolution(const StepSignature& signature, const Values& given);
Values ReferenceFusedConvolution(const StepSignature& signature, const Values& given);
Values ReferenceResidualConvolution(const StepSignature& signature, const Values& given);
Values ReferenceTransposedConvolution(const StepSignature& signature, const Values& given);
Values ReferenceFullyConnected(const StepSignature& signature, const Values& given);
Values ReferenceMaxPool(const StepSignature& signature, const Values& given);
// Max pooling of values, and its gradient, with indices as in layers/pooling.h.
struct Pooled {
  std::vector<double> y, index;
};
Pooled MaxPooled(const MaxPool& pool, const Shape& in, const Shape& out,
                 const std::vector<double>& x);
std::vector<double> MaxPoolGradient(const MaxPool& pool, const Shape& in, const Shape& out,
                                    const std::vector<double>& dy,
                                    const std::vector<double>& index);
// For a pool behind a ReLU: the first y that is not x at its index, or not 0 where that is
// kNotPositive.
std::string MaximumFailure(const MaxPool& pool, const Shape& in, const Shape& out,
                           const std::vector<double>& x, const Pooled& got, double tolerance);

Values ReferenceAveragePool(const StepSignature& signature, const Values& given);

}  // namespace neap::testing
