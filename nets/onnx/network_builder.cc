#include "neap/nets/onnx/network_builder.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/utf8.h"
#include "neap/layers/activation.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/norms/norm_layers.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;
using onnx_schema::ValueInfo;

constexpr size_t kMaxNameBytes = 500;

// Exporters of PyTorch call a node "/layer1/layer1.0/conv1/Conv" after the modules around it:
// "layer1.0.conv1.Conv". Any other name stays as it is.
std::string ModulePath(const std::string& node) {
  if (!absl::StartsWith(node, "/")) return node;
  std::vector<std::string> path;
  for (std::string part : std::vector<std::string>(absl::StrSplit(node, '/', absl::SkipEmpty()))) {
    if (!path.empty() && absl::StartsWith(part, absl::StrCat(path.back(), "."))) path.pop_back();
    path.push_back(std::move(part));
  }
  return absl::StrJoin(path, ".");
}

// The name of the layer with this weight, if the weight's says it.
std::string OwnerOf(const std::vector<Weight>& weights) {
  for (const Weight& weight : weights) {
    const std::string suffix = "." + weight.name;
    if (weight.name != "bias" && absl::EndsWith(weight.value, suffix))
      return weight.value.substr(0, weight.value.size() - suffix.size());
  }
  return "";
}

// `is_module`: whether the layer has weights, or may get some.
std::string Wished(const Node& node, const std::vector<Weight>& weights, bool is_module,
                   bool written_by_neap) {
  if (written_by_neap && !node.name().empty()) return node.name();  // that of the layer
  std::string name = OwnerOf(weights);
  if (!name.empty()) return name;
  name = ModulePath(node.name());
  // The last part, the operator, is not part of the module's name.
  if (is_module) name = std::string(absl::StripSuffix(name, "." + node.op_type()));
  return name.empty() ? node.output(0) : name;
}

// A node without a name goes by that of its output.
std::string NodeName(const Node& node) {
  return node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && IsUtf8(text);
}

absl::Status Describe(const ValueInfo& input, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("input '", input.name(), "' ", what));
}

absl::Status CheckWeight(const std::vector<Weight>& weights, std::string_view name,
                         const Shape& shape) {
  const auto weight = std::find_if(weights.begin(), weights.end(),
                                   [&](const Weight& given) { return given.name == name; });
  if (weight == weights.end())
    return absl::InvalidArgumentError(absl::StrCat("lacks its ", std::string(name)));
  const std::vector<int64_t> dims = weight->dims();
  if (std::equal(dims.begin(), dims.end(), shape.dims().begin(), shape.dims().end()))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(name), " '", weight->value, "' is ",
                                                 absl::StrJoin(dims, "x"), ", but ",
                                                 shape.ToString(), " is needed"));
}

absl::Status CheckWeights(const LayerSpec& spec, const std::vector<Weight>& weights) {
  for (const ParamSpec& param : spec.params) {
    const bool has_own = param.saved_shape.rank() > 0;
    RETURN_IF_ERROR(
        CheckWeight(weights, param.name, has_own ? param.saved_shape : param.tensor.shape));
  }
  for (const StateSpec& state : spec.states)
    RETURN_IF_ERROR(CheckWeight(weights, state.name, state.tensor.shape));
  return absl::OkStatus();
}

// "C, H, W", the axes of an image without N.
std::string_view AxesOf(const Shape& image) {
  if (image.rank() == 2) return "C, T";
  return image.rank() == 3 ? "C, H, W" : "C, D, H, W";
}

}  // namespace

std::vector<int64_t> ChannelOrder(int rank, bool to_last) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, to_last ? order.begin() + 2 : order.end() - 1, order.end());
  return order;
}

std::vector<int64_t> Stored::dims() const {
  std::vector<int64_t> dims =
      reshaped.value_or(std::vector<int64_t>(tensor->dims().begin(), tensor->dims().end()));
  if (is_transposed) std::reverse(dims.begin(), dims.end());
  if (repeats > 1) dims[0] = repeats;
  return dims;
}

std::vector<int64_t> Weight::dims() const {
  const auto* const stored = std::get_if<Stored>(&tensor);
  return stored != nullptr ? stored->dims() : std::get<Constant>(tensor).dims;
}

void Weight::Flatten(int64_t elements) {
  if (auto* const stored = std::get_if<Stored>(&tensor)) {
    *stored = {.tensor = stored->tensor, .reshaped = std::vector<int64_t>{elements}};
  } else {
    std::get<Constant>(tensor).dims = {elements};
  }
}

NetworkBuilder::NetworkBuilder(const onnx_schema::Graph& graph, const TensorReader& reader,
                               const OnnxOptions& options, const FileTraits& traits)
    : graph_(graph), reader_(reader), options_(options), traits_(traits) {
  for (const auto& tensor : graph.initializer()) values_[tensor.name()] = Stored{&tensor};
  for (const Node& node : graph.node()) {
    for (const std::string& input : node.input()) ++readers_[input];
  }
  for (const ValueInfo& output : graph.output()) ++readers_[output.name()];
  for (const char* const name : {"input", "labels", "loss", "targets"}) name_counts_[name] = 1;
}

absl::StatusOr<Shape> NetworkBuilder::ImageShape(const ValueInfo& input, bool channels_last) {
  const onnx_schema::Shape& shape = input.type().tensor_type().shape();
  const int rank = shape.dim_size();
  if (rank < 2 || rank > 2 + kMaxSpatialAxes) {
    return Describe(input,
                    absl::StrCat("has ", rank, " axes; N, C and up to 3 spatial axes are needed"));
  }
  file_batch_ = shape.dim(0).dim_value();
  batch_ = options_.batch.value_or(file_batch_ > 0 ? file_batch_ : kBatchOfAny);
  if (batch_ > kMaxExtent)
    return Describe(input, absl::StrCat("has the batch ", batch_, ", above ", kMaxExtent));
  Shape::Dims dims = {shape.dim(channels_last ? rank - 1 : 1).dim_value()};
  for (int axis = channels_last ? 1 : 2; axis < rank - (channels_last ? 1 : 0); ++axis)
    dims.push_back(options_.image.value_or(shape.dim(axis).dim_value()));
  if (rank == 2) dims.resize(3, 1);
  const Shape image(std::move(dims));
  for (const int64_t extent : image.dims()) {
    if (extent >= 1 && extent <= kMaxExtent) continue;
    return Describe(input, absl::StrCat("has ", std::string(AxesOf(image)), " ", image.ToString(),
                                        ", of which each must be between 1 and ", kMaxExtent,
                                        "; 0 is one that the file leaves open, and height and ",
                                        "width can be given by --image (OnnxOptions::image)"));
  }
  return image;
}

bool NetworkBuilder::HasChannelsLast(const ValueInfo& input) const {
  const int rank = input.type().tensor_type().shape().dim_size();
  if (written_by_neap() || rank < 3 || rank > 2 + kMaxSpatialAxes) return false;
  const std::vector<int64_t> wanted = ChannelOrder(rank, /*to_last=*/false);
  int64_t transposes = 0;
  for (const Node& node : graph_.node()) {
    const bool reads = node.input_size() == 1 && node.input(0) == input.name();
    if (!reads || node.op_type() != "Transpose" || node.attribute_size() != 1) continue;
    const auto& order = node.attribute(0).ints();
    if (std::equal(order.begin(), order.end(), wanted.begin(), wanted.end())) ++transposes;
  }
  return transposes > 0 && transposes == ReaderCount(input.name());
}

absl::Status NetworkBuilder::AddInput() {
  const ValueInfo* image = nullptr;
  std::vector<std::string> names;
  for (const ValueInfo& input : graph_.input()) {
    if (Find(input.name()) != nullptr) continue;  // older files list the initializers, too
    names.push_back(input.name());
    if (image == nullptr) {
      image = &input;
    } else {
      Set(input.name(), Unsupported{});
    }
  }
  if (image == nullptr) return absl::InvalidArgumentError("the graph has no input");
  RETURN_IF_ERROR(IsIds(*image) ? AddIds(*image) : AddImages(*image));
  if (names.size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the graph has the inputs '", absl::StrJoin(names, "' and '"), "'; one of images is needed"));
}

absl::Status NetworkBuilder::AddImages(const ValueInfo& image) {
  const bool channels_last = HasChannelsLast(image);
  ASSIGN_OR_RETURN(const Shape chw, ImageShape(image, channels_last));
  Graph only({.batch = batch_, .dtype = options_.dtype, .layout = options_.layout});
  only.Input(chw);
  GraphLayer source = only.layers()[0];
  ASSIGN_OR_RETURN(LayerSpec spec, source.layer.Specify({}));
  const bool is_flat = image.type().tensor_type().shape().dim_size() == 2;
  const Form form = is_flat ? Form::kFlat : channels_last ? Form::kChannelsLast : Form::kImage;
  values_[image.name()] = ImageValue{.layer = source.name,
                                     .spec = spec.output,
                                     .arrangement = ArrangementOf(spec.output.shape, form)};
  draft_of_[source.name] = 0;
  drafts_.push_back({.layer = std::move(source), .spec = std::move(spec), .weights = {}});
  return absl::OkStatus();
}

const Value* NetworkBuilder::Find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void NetworkBuilder::ForgetRead(const Node& node) {
  for (const std::string& input : node.input()) {
    const auto found = values_.find(input);
    if (++read_[input] < ReaderCount(input) || found == values_.end()) continue;
    if (std::holds_alternative<Constant>(found->second)) values_.erase(found);
  }
}

int64_t NetworkBuilder::ReaderCount(const std::string& name) const {
  const auto found = readers_.find(name);
  return found == readers_.end() ? 0 : found->second;
}

std::string NetworkBuilder::UniqueName(const std::string& wished, int outputs) {
  const auto is_taken = [&](const std::string& name) {
    for (int i = 1; i < outputs; ++i) {
      if (name_counts_.contains(OutputName(name, i))) return true;
    }
    return false;
  };
  std::string name = UniqueName(wished);
  while (is_taken(name)) name = UniqueName(wished);
  for (int i = 1; i < outputs; ++i) ++name_counts_[OutputName(name, i)];
  return name;
}

std::string NetworkBuilder::UniqueName(const std::string& wished) {
  std::string name = wished;
  for (int64_t& count = name_counts_[wished]; count > 0;) {
    name = absl::StrCat(wished, "_", ++count);
    if (!name_counts_.contains(name)) break;
  }
  // `wished` stays counted: the next one with this name has the next number.
  ++name_counts_[name];
  return name;
}

absl::Status NetworkBuilder::AddLayer(const Node& node, Layer layer,
                                      const std::vector<ImageValue>& inputs,
                                      std::vector<Weight> weights) {
  return AddLayer(node, std::move(layer), inputs, std::move(weights), std::nullopt);
}

absl::Status NetworkBuilder::AddLayer(const Node& node, Layer layer,
                                      const std::vector<ImageValue>& inputs,
                                      std::vector<Weight> weights, std::optional<Form> form) {
  const bool is_module = !weights.empty() || IsNorm(layer);
  const std::string wished = Wished(node, weights, is_module, written_by_neap());
  ASSIGN_OR_RETURN(ImageValue output,
                   Append(wished, std::move(layer), inputs, std::move(weights), form));
  drafts_.back().node = NodeName(node);
  Set(node.output(0), std::move(output));
  return absl::OkStatus();
}

absl::StatusOr<ImageValue> NetworkBuilder::AddExtra(const Node& node,
                                                    const std::vector<Weight>& weights,
                                                    std::string_view suffix, Layer layer,
                                                    const std::vector<ImageValue>& inputs) {
  const std::string wished = Wished(node, weights, !weights.empty(), written_by_neap());
  return Append(absl::StrCat(wished, std::string(suffix)), std::move(layer), inputs, {},
                std::nullopt);
}

absl::StatusOr<ImageValue> NetworkBuilder::Append(const std::string& wished, Layer layer,
                                                  const std::vector<ImageValue>& inputs,
                                                  std::vector<Weight> weights,
                                                  std::optional<Form> form) {
  LayerContext context = {.dtype = options_.dtype, .layout = options_.layout};
  std::vector<std::string> names;
  for (const ImageValue& input : inputs) {
    context.inputs.push_back(input.spec);
    names.push_back(input.layer);
  }
  ASSIGN_OR_RETURN(LayerSpec spec, layer.Specify(context));
  Arrangement arrangement;
  if (form.has_value()) {
    arrangement = ArrangementOf(spec.output.shape, *form);
  } else {
    ASSIGN_OR_RETURN(arrangement, ArrangementBehind(inputs[0], *this, spec.output.shape));
  }
  RETURN_IF_ERROR(CheckWeights(spec, weights));
  std::string name = UniqueName(wished, spec.output_count());
  if (!IsName(name)) {
    return absl::InvalidArgumentError(absl::StrCat("its name is not UTF-8, or longer than ",
                                                   static_cast<int64_t>(kMaxNameBytes), " bytes"));
  }
  ImageValue output = {.layer = name, .spec = spec.output, .arrangement = std::move(arrangement)};
  for (int i = 0; i < spec.output_count(); ++i) draft_of_[OutputName(name, i)] = drafts_.size();
  drafts_.push_back({.layer = {.name = std::move(name), .layer = std::move(layer), .inputs = names},
                     .spec = std::move(spec),
                     .weights = std::move(weights)});
  for (const ImageValue& input : inputs) output.is_guess = output.is_guess || input.is_guess;
  return output;
}

ImageValue NetworkBuilder::FurtherOutput(const ImageValue& first, int index) const {
  ImageValue output = first;
  output.layer = OutputName(first.layer, index);
  output.spec = drafts_[draft_of_.at(first.layer)].spec.OutputSpec(index);
  return output;
}

ImageValue NetworkBuilder::Guess(const std::string& name, const ImageValue& like) {
  ImageValue guess = {.layer = UniqueName(name),
                      .spec = like.spec,
                      .arrangement = like.arrangement,
                      .is_guess = true};
  draft_of_[guess.layer] = drafts_.size();
  drafts_.push_back({.layer = {.name = guess.layer, .layer = Relu{}, .inputs = {"input"}},
                     .spec = {.output = like.spec},
                     .weights = {}});
  return guess;
}

std::optional<ImageValue> NetworkBuilder::StatedShape(const std::string& name) const {
  const auto stated = std::find_if(graph_.value_info().begin(), graph_.value_info().end(),
                                   [&](const ValueInfo& info) { return info.name() == name; });
  if (stated == graph_.value_info().end()) return std::nullopt;
  const onnx_schema::Shape& shape = stated->type().tensor_type().shape();
  const int rank = shape.dim_size();
  if (rank < 2 || rank > 2 + kMaxSpatialAxes) return std::nullopt;
  Shape::Dims extents = {batch_};
  for (int axis = 1; axis < rank; ++axis) {
    extents.push_back(shape.dim(axis).dim_value());
    if (extents.back() < 1 || extents.back() > kMaxExtent) return std::nullopt;
  }
  if (rank == 2) extents.resize(4, 1);
  ImageValue value = {
      .layer = "", .spec = drafts_[0].spec.output, .arrangement = {}, .is_guess = true};
  value.spec.shape = Shape(std::move(extents));
  value.arrangement = ArrangementOf(value.spec.shape, rank == 2 ? Form::kFlat : Form::kImage);
  return value;
}

const GraphLayer& NetworkBuilder::LayerOf(const std::string& output) const {
  return drafts_[draft_of_.at(output)].layer;
}

}  // namespace neap::nets
