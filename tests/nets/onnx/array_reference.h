// ONNX's operators on tensors of any axes, in float64 and plain loops: those of transformers.
// Unlike RunReference(), nothing is taken for images, and every transpose moves elements.
#pragma once

#include "onnx_schema.pb.h"
#include "tests/nets/onnx/onnx_reference.h"

namespace neap::testing {

// The graph's output for the input "x". Fails the test for an operator that it does not know.
ReferenceTensor RunArrays(const onnx_schema::Graph& graph, const ReferenceTensor& x);

}  // namespace neap::testing
