// Nodes whose elements are sums over those of constants (nets/onnx/constants/constant_sums.h), as a
// node states them: reductions, matrix products, convolutions of one pixel, running sums and batch
// norms. *Errors*: those of NodeReader and of constant_sums.h.
#pragma once

#include "absl/status/statusor.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

absl::StatusOr<Constant> FoldReduce(NodeReader& node, NetworkBuilder& network);
absl::StatusOr<Constant> FoldMatMul(NodeReader& node, NetworkBuilder& network);
absl::StatusOr<Constant> FoldGemm(NodeReader& node, NetworkBuilder& network);
absl::StatusOr<Constant> FoldConv(NodeReader& node, NetworkBuilder& network);
absl::StatusOr<Constant> FoldCumSum(NodeReader& node, NetworkBuilder& network);
// With the statistics of the constant itself if the node says that it trains, as exporters write
// the standardised weights of a convolution.
absl::StatusOr<Constant> FoldBatchNorm(NodeReader& node, NetworkBuilder& network);

}  // namespace neap::nets
