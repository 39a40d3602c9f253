// ONNX's operators as its specification states them, in float64 and plain loops, independent of the
// code that reads files. Covers what the tests use.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx_schema.pb.h"

namespace neap::testing {

struct ReferenceTensor {
  std::vector<int64_t> dims;
  std::vector<double> values;
};

// The graph's output for the input "x". Fails the test for an operator that it does not know.
ReferenceTensor RunReference(const onnx_schema::Graph& graph, const ReferenceTensor& x);

}  // namespace neap::testing
