// The examples in the headers of nets/onnx/, which must compile. See scripts/check_examples.py.
#include <cmath>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/axes/arrangement.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/constants/constant_budget.h"
#include "neap/nets/onnx/constants/constant_folding.h"
#include "neap/nets/onnx/constants/constant_math.h"
#include "neap/nets/onnx/constants/constant_sums.h"
#include "neap/nets/onnx/formula.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/node_reader.h"
#include "neap/nets/onnx/node_writer.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/onnx/onnx_tensor.h"
#include "neap/nets/onnx/refusal_report.h"

namespace neap::header_examples::nets_onnx {

using namespace neap::nets;

// nets/onnx/onnx_file.h
absl::Status Train(Device* device) {
  ASSIGN_OR_RETURN(nets::OnnxModel model, nets::ReadOnnx("resnet18.onnx", {.batch = 64}));
  ASSIGN_OR_RETURN(Session session, CreateSession(model.graph, *device, {}));
  RETURN_IF_ERROR(session.LoadWeights(model.weights));
  return absl::OkStatus();
}

// nets/onnx/onnx_tensor.h
absl::Status ReadTensors(const onnx_schema::Tensor& tensor) {
  const TensorReader reader("models");
  ASSIGN_OR_RETURN(const std::vector<float> weight, reader.Floats(tensor));
  ASSIGN_OR_RETURN(const Constant shape, reader.ReadConstant(tensor));
  return absl::OkStatus();
}

// nets/onnx/network_builder.h
absl::Status Build(const onnx_schema::Graph& graph, const TensorReader& reader,
                   const OnnxOptions& options, const onnx_schema::Node& node, const ImageValue& x) {
  NetworkBuilder network(graph, reader, options, {.opset = 17});
  RETURN_IF_ERROR(network.AddInput());
  RETURN_IF_ERROR(network.AddLayer(node, Relu{}, {x}));  // x: the value that the node reads
  ASSIGN_OR_RETURN(OnnxModel model, network.Finish("lenet"));
  return absl::OkStatus();
}

// nets/onnx/node_reader.h
absl::Status Read(const onnx_schema::Node& proto, NetworkBuilder& network) {
  NodeReader node(proto, network);
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  const std::vector<int64_t> strides = node.Ints("strides", {1, 1});
  RETURN_IF_ERROR(node.Attributes());  // an attribute of another type
  return absl::OkStatus();
}

// nets/onnx/axes/arrangement.h
void MakeTokens() {
  const Arrangement images = Arrangement::OfLayer({1, 768, 14, 14});
  const Arrangement tokens = images.Reshaped({1, 768, 196})->Transposed({0, 2, 1});
  tokens.dims();         // {1, 196, 768}
  tokens.IsWhole(2, 1);  // the channels
}

// nets/onnx/axes/rearrange.h
absl::Status MakeImages(const NodeReader& node, NetworkBuilder& network, const ImageValue& tokens) {
  ASSIGN_OR_RETURN(const ImageValue x, AsImage(node.proto(), network, tokens));
  return absl::OkStatus();
}

// nets/onnx/constants/constant_folding.h
absl::Status FoldConstants(NodeReader& node, NetworkBuilder& network) {
  if (node.op() == "Constant" || node.ReadsConstants()) RETURN_IF_ERROR(Fold(node, network));
  return absl::OkStatus();
}

// nets/onnx/constants/constant_arrays.h
Constant Transposed(const Constant& matrix, int64_t rows, int64_t columns) {
  return View(matrix, {columns, rows}, {1, columns});  // its transpose
}

// nets/onnx/constants/constant_sums.h
absl::StatusOr<Dims> MeansOfFilters(const Constant& weight) {
  ASSIGN_OR_RETURN(Constant means, Reduced("ReduceMean", weight, {1, 2, 3}));
  return means.dims;  // {64, 1, 1, 1}
}

// nets/onnx/constants/constant_math.h
absl::Status ComputeConstants(ConstantBudget& budget, const Constant& thirds, const Constant& a,
                              const Constant& b) {
  ASSIGN_OR_RETURN(Constant halves, Cast(thirds, onnx_schema::Tensor::FLOAT16));
  ASSIGN_OR_RETURN(Constant sum, Elementwise(budget, "Add", {a, b}));
  return absl::OkStatus();
}

// nets/onnx/formula.h
void FindGelu() {
  const Formula x = Formula::Linear(1, 0);
  const std::optional<Formula> inner = Product(x, Formula::Linear(0, std::sqrt(0.5)));
  const std::optional<Formula> erf = Applied(Formula::Function::kErf, *inner);
  const std::optional<Formula> twice = Product(x, *Sum(*erf, Formula::Linear(0, 1)));
  GeluOf(*Product(*twice, Formula::Linear(0, 0.5)), /*rounding=*/0x1p-18);  // Gelu{}
}

// nets/onnx/node_axes.h
absl::Status ReadAxes(NodeReader& node, const ImageValue& x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims, AxesAfter(node, x.dims()));
  return absl::OkStatus();
}

// nets/onnx/refusal_report.h
absl::Status Report(const onnx_schema::Graph& graph, const onnx_schema::Node& node) {
  RefusalReport report;
  report.Add(node, {.reason = "neap has no layer for this operator"});
  RETURN_IF_ERROR(report.ToStatus(graph.node_size()));
  return absl::OkStatus();
}

// nets/onnx/node_writer.h
absl::Status Write(const ResolvedGraph& network, const NamedValues& weights,
                   onnx_schema::Graph& graph) {
  NodeWriter writer(network, weights, graph);
  RETURN_IF_ERROR(writer.WriteInput(network.layers[0]));
  RETURN_IF_ERROR(writer.Write(network.layers[1]));  // and so on
  writer.WriteOutput({network.layers[1].id});
  return absl::OkStatus();
}

}  // namespace neap::header_examples::nets_onnx
