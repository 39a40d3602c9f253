#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/coded_stream.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/utf8.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/onnx/operators.h"
#include "neap/nets/onnx/refusal_report.h"

namespace neap::nets {
namespace {

using onnx_schema::Model;

constexpr int64_t kOldestOpset = 9;
constexpr int64_t kMaxReadBytes = (int64_t{1} << 31) - 1;  // of a message in Protocol Buffers

absl::Status InFile(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

absl::Status Parse(const std::string& path, Model& model) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  if (file.size_bytes() > kMaxReadBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has ", file.size_bytes(), " bytes; an ONNX file has less than 2 GiB, and its ",
        "weights are in another file if they have more"));
  }
  ASSIGN_OR_RETURN(const std::string bytes, file.ReadAll(kMaxReadBytes));
  if (model.ParseFromString(bytes) && model.has_graph()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": this is no ONNX model"));
}

absl::StatusOr<int64_t> ReadOpset(const Model& model) {
  for (const onnx_schema::OperatorSet& set : model.opset_import()) {
    if (!set.domain().empty() && set.domain() != "ai.onnx") continue;
    if (set.version() >= kOldestOpset) return set.version();
    return absl::InvalidArgumentError(absl::StrCat("it has opset ", set.version(), "; opset ",
                                                   kOldestOpset, " or newer is needed"));
  }
  return absl::InvalidArgumentError("it does not say which opset it has");
}

// How far numbers of this type are from those that were meant (FileTraits::rounding).
double RoundingOf(int32_t data_type) {
  if (data_type == onnx_schema::Tensor::BFLOAT16) return 0x1p-9;
  if (data_type == onnx_schema::Tensor::FLOAT16) return 0x1p-11;
  return 0x1p-18;  // wider ones may have been written with six digits
}

// The same of the file's type with the fewest digits.
double RoundingOf(const onnx_schema::Graph& graph) {
  double rounding = RoundingOf(onnx_schema::Tensor::FLOAT);
  const auto add = [&](const onnx_schema::Tensor& tensor) {
    rounding = std::max(rounding, RoundingOf(tensor.data_type()));
  };
  for (const onnx_schema::Tensor& tensor : graph.initializer()) add(tensor);
  for (const onnx_schema::Node& node : graph.node()) {
    for (const onnx_schema::Attribute& attribute : node.attribute()) {
      if (attribute.type() == onnx_schema::Attribute::TENSOR) add(attribute.t());
    }
  }
  return rounding;
}

absl::Status CheckOptions(const OnnxOptions& options) {
  constexpr int64_t kMax = int64_t{1} << 24;
  const int64_t image = options.image.value_or(1);
  const int64_t batch = options.batch.value_or(1);
  if (batch < 1 || batch > kMax || image < 1 || image > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch ", batch, " and image ", image, " must be between 1 and ", kMax));
  }
  if (options.dtype != DType::kUInt8 && options.dtype != DType::kInt32) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a network is trained in a floating-point dtype, not ", std::string(Name(options.dtype))));
}

// Adds all nodes. Those that are refused are named in one error.
absl::Status AddNodes(const onnx_schema::Graph& graph, NetworkBuilder& network) {
  RefusalReport report;
  for (const onnx_schema::Node& proto : graph.node()) {
    NodeReader node(proto, network);
    ASSIGN_OR_RETURN(const std::optional<Refusal> refusal, AddNode(node, network));
    if (refusal.has_value()) report.Add(proto, *refusal);
    network.ForgetRead(proto);
  }
  return report.ToStatus(graph.node_size());
}

// One error of several, of which some may be OK.
absl::Status Joined(const std::vector<absl::Status>& all) {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> texts;
  for (const absl::Status& status : all) {
    if (status.ok()) continue;
    if (code == absl::StatusCode::kOk || absl::IsUnimplemented(status)) code = status.code();
    texts.emplace_back(status.message());
  }
  return {code, absl::StrJoin(texts, "; and ")};
}

absl::StatusOr<OnnxModel> ToModel(const Model& model, const std::string& path,
                                  const OnnxOptions& options) {
  ASSIGN_OR_RETURN(const int64_t opset, ReadOpset(model));
  const std::filesystem::path file(path);
  if (!IsUtf8(file.stem().string()))
    return absl::InvalidArgumentError("the file's name, which the network gets, is not UTF-8");
  const TensorReader reader(file.parent_path().string());
  const FileTraits traits = {.opset = opset,
                             .written_by_neap = model.producer_name() == kProducer,
                             .rounding = RoundingOf(model.graph())};
  NetworkBuilder network(model.graph(), reader, options, traits);
  const absl::Status input = network.AddInput();
  if (!network.HasImages()) return input;
  const absl::Status nodes = AddNodes(model.graph(), network);
  if (!input.ok() || !nodes.ok()) return Joined({input, nodes, network.CheckOutputs()});
  return network.Finish(file.stem().string());
}

}  // namespace

bool BuiltWithOnnx() { return true; }

absl::StatusOr<OnnxModel> ReadOnnx(const std::string& path, const OnnxOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  google::protobuf::Arena arena;
  auto* const model = google::protobuf::Arena::CreateMessage<Model>(&arena);
  RETURN_IF_ERROR(Parse(path, *model));
  absl::StatusOr<OnnxModel> read = ToModel(*model, path, options);
  if (!read.ok()) return InFile(path, read.status());
  return read;
}

}  // namespace neap::nets
