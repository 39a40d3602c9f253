#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/arena.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/file_form.h"
#include "neap/nets/onnx/node_writer.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/with_loss.h"

namespace neap::nets {
namespace {

using onnx_schema::Model;

// The IR versions of ONNX 1.12 and 1.14, which introduced the opsets.
constexpr int64_t IrVersionOf(int64_t opset) { return opset < kOpsetOfDilatedAverages ? 8 : 9; }
constexpr size_t kMaxWrittenBytes = (size_t{1} << 31) - 1;

absl::Status CheckNames(const onnx_schema::Graph& graph) {
  absl::flat_hash_set<std::string> names;
  const auto twice = [](const std::string& name) {
    return absl::InvalidArgumentError(
        absl::StrCat("two tensors would be called '", name, "' in ONNX; rename a layer"));
  };
  for (const onnx_schema::ValueInfo& input : graph.input()) {
    if (!names.insert(input.name()).second) return twice(input.name());
  }
  for (const onnx_schema::Tensor& tensor : graph.initializer()) {
    if (!names.insert(tensor.name()).second) return twice(tensor.name());
  }
  for (const onnx_schema::Node& node : graph.node()) {
    for (const std::string& output : node.output()) {
      if (!names.insert(output).second) return twice(output);
    }
  }
  return absl::OkStatus();
}

std::string NameAndType(const ResolvedLayer& layer) {
  return absl::StrCat("'", layer.name, "' (", std::string(layer.layer.type()), ")");
}

absl::Status CheckOutputs(const ResolvedGraph& network) {
  for (const ResolvedLayer& layer : network.layers) {
    if (!IsLoss(layer.role) || layer.results.empty()) continue;
    return absl::UnimplementedError(absl::StrCat(
        "the output '", layer.name, "' is a loss, and an ONNX file has the network without it"));
  }
  return absl::OkStatus();
}

// The weights as the layers have them, which files may have transposed. Those of another number of
// values, which the writer refuses, stay.
NamedValues InOwnOrder(const ResolvedGraph& network, NamedValues weights) {
  absl::flat_hash_set<std::string> known;  // layers may share some
  for (const ResolvedLayer& layer : network.layers) {
    for (const ParamSpec& param : layer.spec.params) {
      const std::string name = ParamName(layer, param);
      const auto values = weights.find(name);
      if (!param.in_files.transposed || !known.insert(name).second || values == weights.end() ||
          std::ssize(values->second) != param.tensor.elements()) {
        continue;
      }
      values->second = FromTransposed(values->second, param.tensor.shape);
    }
  }
  return weights;
}

// Returns the opset that the graph needs.
absl::StatusOr<int64_t> WriteGraph(const ResolvedGraph& network, const NamedValues& weights,
                                   onnx_schema::Graph& graph) {
  graph.set_name(network.options.name);
  NodeWriter writer(network, weights, graph);
  std::vector<std::string> unknown;
  for (const ResolvedLayer& layer : network.layers) {
    if (layer.role == LayerRole::kLoss) writer.WriteOutput(layer.inputs[0]);
    const bool is_input = layer.role == LayerRole::kFeed && !layer.is_target;
    if ((layer.role != LayerRole::kInner && !is_input) || layer.training_only) continue;
    const absl::Status written = is_input ? writer.WriteInput(layer) : writer.Write(layer);
    for (const LayerResult& result : layer.results) {
      if (written.ok()) writer.WriteOutput({layer.id, result.output});
    }
    if (absl::IsUnimplemented(written)) {
      unknown.push_back(NameAndType(layer));
    } else {
      RETURN_IF_ERROR(written);
    }
  }
  if (!unknown.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("ONNX has no operator for: ", absl::StrJoin(unknown, ", ")));
  }
  RETURN_IF_ERROR(CheckNames(graph));
  return writer.opset();
}

absl::Status WriteFile(const std::string& path, const Model& model) {
  if (model.ByteSizeLong() > kMaxWrittenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": would have ", model.ByteSizeLong(),
                                                   " bytes, but an ONNX file has less than 2 GiB"));
  }
  const std::string bytes = model.SerializeAsString();
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file.WriteAt(
      0, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())));
  return file.Commit();
}

}  // namespace

absl::Status WriteOnnx(const std::string& path, const Graph& graph, const NamedValues& weights) {
  ASSIGN_OR_RETURN(const ResolvedGraph given, Resolve(graph, Mode::kInference));
  RETURN_IF_ERROR(CheckOutputs(given));
  ASSIGN_OR_RETURN(const Graph predicting, WithLogits(graph));
  ASSIGN_OR_RETURN(const ResolvedGraph network, Resolve(predicting, Mode::kInference));
  google::protobuf::Arena arena;
  auto* const model = google::protobuf::Arena::CreateMessage<Model>(&arena);
  model->set_producer_name(std::string(kProducer));
  const NamedValues own = InOwnOrder(given, weights);
  ASSIGN_OR_RETURN(const int64_t opset, WriteGraph(network, own, *model->mutable_graph()));
  model->set_ir_version(IrVersionOf(opset));
  onnx_schema::OperatorSet& import = *model->add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  return WriteFile(path, *model);
}

}  // namespace neap::nets
