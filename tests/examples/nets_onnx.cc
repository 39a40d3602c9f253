// The examples in the headers of nets/onnx/, which must compile. See scripts/check_examples.py.
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/constant_folding.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"
#include "neap/nets/onnx/node_writer.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/onnx/onnx_tensor.h"

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
  ASSIGN_OR_RETURN(const Constant shape, reader.SmallConstant(tensor));
  return absl::OkStatus();
}

// nets/onnx/network_builder.h
absl::Status Build(const onnx_schema::Graph& graph, const TensorReader& reader,
                   const OnnxOptions& options, const onnx_schema::Node& node, const ImageValue& x) {
  NetworkBuilder network(graph, reader, options);
  RETURN_IF_ERROR(network.AddInput());
  RETURN_IF_ERROR(network.AddLayer(node, Relu{}, {x}));  // x: the value that the node reads
  ASSIGN_OR_RETURN(OnnxModel model, network.Finish("lenet"));
  return absl::OkStatus();
}

// nets/onnx/node_reader.h
absl::Status Read(const onnx_schema::Node& proto, const NetworkBuilder& network) {
  NodeReader node(proto, network);
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  const std::vector<int64_t> strides = node.Ints("strides", {1, 1});
  RETURN_IF_ERROR(node.Attributes());  // an attribute of another type
  return absl::OkStatus();
}

// nets/onnx/constant_folding.h
absl::Status FoldConstants(NodeReader& node) {
  if (node.op() == "Constant" || node.ReadsConstants()) {
    ASSIGN_OR_RETURN(Value value, Fold(node));
  }
  return absl::OkStatus();
}

// nets/onnx/node_writer.h
absl::Status Write(const ResolvedGraph& network, const NamedValues& weights,
                   onnx_schema::Graph& graph) {
  NodeWriter writer(network, weights, graph);
  writer.WriteInput(network.layers[0]);
  RETURN_IF_ERROR(writer.Write(network.layers[1]));  // and so on
  writer.WriteOutput(network.layers[1].id);
  return absl::OkStatus();
}

}  // namespace neap::header_examples::nets_onnx
