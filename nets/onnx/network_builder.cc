#include "neap/nets/onnx/network_builder.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/utf8.h"
#include "neap/layers/activation.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;
using onnx_schema::ValueInfo;

constexpr size_t kLongestName = 500;
constexpr int64_t kLargestExtent = int64_t{1} << 24;

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
    constexpr std::string_view kSuffix = ".weight";
    if (weight.name == "weight" && absl::EndsWith(weight.value, ".weight"))
      return weight.value.substr(0, weight.value.size() - kSuffix.size());
  }
  return "";
}

std::string Wished(const Node& node, const std::vector<Weight>& weights) {
  std::string name = OwnerOf(weights);
  if (!name.empty()) return name;
  name = ModulePath(node.name());
  // Without its last part, the operator, which is not part of the module's name.
  if (!weights.empty()) name = std::string(absl::StripSuffix(name, "." + node.op_type()));
  return name.empty() ? node.output(0) : name;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && IsUtf8(text);
}

absl::Status Describe(const ValueInfo& input, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("input '", input.name(), "' ", what));
}

// Vectors may have further axes of extent 1.
absl::Status CheckWeight(const std::vector<Weight>& weights, std::string_view name,
                         const Shape& shape) {
  const auto weight = std::find_if(weights.begin(), weights.end(),
                                   [&](const Weight& given) { return given.name == name; });
  if (weight == weights.end())
    return absl::InvalidArgumentError(absl::StrCat("lacks its ", std::string(name)));
  const std::vector<int64_t> dims = weight->stored.dims();
  ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(*weight->stored.tensor));
  const bool fits = shape.rank() == 1 ? elements == shape.elements()
                                      : std::equal(dims.begin(), dims.end(), shape.dims().begin(),
                                                   shape.dims().end());
  if (fits) return absl::OkStatus();
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

// How many values layers have of the file's tensors. A small file may let many layers share a large
// tensor, of which each gets a copy.
class SharedSize {
 public:
  absl::Status Add(int64_t count, bool is_shared) {
    constexpr int64_t kMostCopies = 16;
    constexpr int64_t kAlways = int64_t{1} << 22;
    copied_ += count;
    if (!is_shared) stored_ += count;
    if (copied_ <= kAlways || copied_ / kMostCopies <= stored_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("its layers share tensors so often that ",
                                                   stored_, " values would become ", copied_));
  }

 private:
  int64_t stored_ = 0;
  int64_t copied_ = 0;
};

}  // namespace

ImageValue ImageValue::Unpadded() const {
  const Shape& shape = spec.shape;
  ImageValue image = {.layer = unpadded, .spec = spec, .is_flat = is_flat};
  image.spec.shape = {shape.n(), shape.c(), shape.h() - padding.top - padding.bottom,
                      shape.w() - padding.left - padding.right};
  return image;
}

std::vector<int64_t> ImageValue::dims() const {
  const Shape& shape = spec.shape;
  if (is_flat) return {shape.n(), elements()};
  return {shape.n(), shape.c(), shape.h(), shape.w()};
}

std::vector<int64_t> Stored::dims() const {
  std::vector<int64_t> dims(tensor->dims().begin(), tensor->dims().end());
  if (is_transposed) std::reverse(dims.begin(), dims.end());
  return dims;
}

NetworkBuilder::NetworkBuilder(const onnx_schema::Graph& graph, const TensorReader& reader,
                               const OnnxOptions& options, bool written_by_neap)
    : graph_(graph), reader_(reader), options_(options), written_by_neap_(written_by_neap) {
  for (const auto& tensor : graph.initializer()) values_[tensor.name()] = Stored{&tensor};
  for (const Node& node : graph.node()) {
    for (const std::string& input : node.input()) ++readers_[input];
  }
  for (const ValueInfo& output : graph.output()) ++readers_[output.name()];
  for (const char* const name : {"input", "labels", "loss"}) name_counts_[name] = 1;
}

absl::StatusOr<Shape> NetworkBuilder::ImageShape(const ValueInfo& input) {
  const onnx_schema::Shape& shape = input.type().tensor_type().shape();
  const int rank = shape.dim_size();
  if (rank != 4 && rank != 2)
    return Describe(input, absl::StrCat("has ", rank, " axes; N, C, H, W or N, C are needed"));
  file_batch_ = shape.dim(0).dim_value();
  Shape image = {shape.dim(1).dim_value(), 1, 1};
  if (rank == 4) {
    image = {shape.dim(1).dim_value(), options_.image.value_or(shape.dim(2).dim_value()),
             options_.image.value_or(shape.dim(3).dim_value())};
  }
  for (const int64_t extent : image.dims()) {
    if (extent >= 1 && extent <= kLargestExtent) continue;
    return Describe(input, absl::StrCat("has C, H, W ", image.ToString(), ", of which each must ",
                                        "be between 1 and ", kLargestExtent,
                                        "; 0 is one that the file leaves open, and height and ",
                                        "width can be given by --image (OnnxOptions::image)"));
  }
  return image;
}

absl::Status NetworkBuilder::AddInput() {
  const ValueInfo* image = nullptr;
  for (const ValueInfo& input : graph_.input()) {
    if (Find(input.name()) != nullptr) continue;  // older files list the initializers, too
    if (image != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the graph has the inputs '", image->name(),
                                                     "' and '", input.name(),
                                                     "'; one of images is needed"));
    }
    image = &input;
  }
  if (image == nullptr) return absl::InvalidArgumentError("the graph has no input");
  ASSIGN_OR_RETURN(const Shape chw, ImageShape(*image));
  Graph only({.batch = options_.batch, .dtype = options_.dtype, .layout = options_.layout});
  only.Input(chw);
  GraphLayer source = only.layers()[0];
  ASSIGN_OR_RETURN(LayerSpec spec, source.layer.Specify({}));
  values_[image->name()] =
      ImageValue{.layer = source.name,
                 .spec = spec.output,
                 .is_flat = image->type().tensor_type().shape().dim_size() == 2};
  draft_of_[source.name] = 0;
  drafts_.push_back({std::move(source), std::move(spec), {}});
  return absl::OkStatus();
}

const Value* NetworkBuilder::Find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

int64_t NetworkBuilder::ReaderCount(const std::string& name) const {
  const auto found = readers_.find(name);
  return found == readers_.end() ? 0 : found->second;
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
  return AddLayer(node, std::move(layer), inputs, std::move(weights), inputs[0].is_flat);
}

absl::Status NetworkBuilder::AddLayer(const Node& node, Layer layer,
                                      const std::vector<ImageValue>& inputs,
                                      std::vector<Weight> weights, bool is_flat) {
  const std::string wished = Wished(node, weights);
  ASSIGN_OR_RETURN(ImageValue output,
                   Append(wished, std::move(layer), inputs, std::move(weights), is_flat));
  Set(node.output(0), std::move(output));
  return absl::OkStatus();
}

absl::StatusOr<ImageValue> NetworkBuilder::AddExtra(const Node& node,
                                                    const std::vector<Weight>& weights,
                                                    std::string_view suffix, Layer layer,
                                                    const ImageValue& x) {
  return Append(absl::StrCat(Wished(node, weights), std::string(suffix)), std::move(layer), {x}, {},
                x.is_flat);
}

absl::StatusOr<ImageValue> NetworkBuilder::Append(const std::string& wished, Layer layer,
                                                  const std::vector<ImageValue>& inputs,
                                                  std::vector<Weight> weights, bool is_flat) {
  LayerContext context;
  std::vector<std::string> names;
  for (const ImageValue& input : inputs) {
    context.inputs.push_back(input.spec);
    names.push_back(input.layer);
  }
  ASSIGN_OR_RETURN(LayerSpec spec, layer.Specify(context));
  RETURN_IF_ERROR(CheckWeights(spec, weights));
  std::string name = UniqueName(wished);
  if (!IsName(name)) {
    return absl::InvalidArgumentError(absl::StrCat("its name is not UTF-8, or longer than ",
                                                   static_cast<int64_t>(kLongestName), " bytes"));
  }
  ImageValue output = {.layer = name, .spec = spec.output, .is_flat = is_flat};
  draft_of_[name] = drafts_.size();
  drafts_.push_back({{.name = std::move(name), .layer = std::move(layer), .inputs = names},
                     std::move(spec),
                     std::move(weights)});
  return output;
}

const GraphLayer& NetworkBuilder::LayerOf(const ImageValue& images) const {
  return drafts_[draft_of_.at(images.layer)].layer;
}

void NetworkBuilder::AddBias(const ImageValue& images, Layer with_bias, Weight bias) {
  Draft& draft = drafts_[draft_of_.at(images.layer)];
  draft.layer.layer = std::move(with_bias);
  draft.weights.push_back(std::move(bias));
}

absl::StatusOr<Constant> NetworkBuilder::ReadConstant(const Stored& stored) const {
  ASSIGN_OR_RETURN(Constant constant, reader_.SmallConstant(*stored.tensor));
  if (!stored.is_transposed) return constant;
  return absl::UnimplementedError(
      absl::StrCat("computes with the transpose of '", stored.tensor->name(), "'"));
}

absl::StatusOr<ImageValue> NetworkBuilder::Output() const {
  if (graph_.output_size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has ", graph_.output_size(), " outputs: ",
        absl::StrJoin(graph_.output(), ", ",
                      [](std::string* out, const ValueInfo& value) { out->append(value.name()); }),
        "; one is needed, the scores of the classes"));
  }
  const Value* const value = Find(graph_.output(0).name());
  const auto* const images = value == nullptr ? nullptr : std::get_if<ImageValue>(value);
  if (images == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the output '", graph_.output(0).name(), "' is no output of a layer"));
  }
  return *images;
}

absl::StatusOr<ImageValue> NetworkBuilder::Predictions() const {
  ASSIGN_OR_RETURN(ImageValue output, Output());
  const bool takes_softmax = options_.loss.As<SoftmaxCrossEntropy>() != nullptr;
  if (!output.softmax.empty() && !takes_softmax) {
    return absl::UnimplementedError(absl::StrCat(
        "the output '", graph_.output(0).name(), "' is a ", output.softmax,
        ", which neap has only as a part of the softmax cross-entropy, not of the loss ",
        std::string(options_.loss.type())));
  }
  const GraphLayer& last = LayerOf(output);
  const bool takes_sigmoid = options_.loss.As<BinaryCrossEntropy>() != nullptr;
  if (takes_sigmoid && last.layer.As<Sigmoid>() != nullptr) output.layer = last.inputs[0];
  return output;
}

std::vector<bool> NetworkBuilder::Needed(const ImageValue& output) const {
  std::vector<bool> needed(drafts_.size(), false);
  needed[0] = true;
  needed[draft_of_.at(output.layer)] = true;
  for (size_t i = drafts_.size(); i-- > 0;) {  // a layer's inputs come before it
    if (!needed[i]) continue;
    for (const std::string& input : drafts_[i].layer.inputs) needed[draft_of_.at(input)] = true;
  }
  return needed;
}

absl::StatusOr<std::vector<float>> NetworkBuilder::ReadValues(const Stored& stored) const {
  ASSIGN_OR_RETURN(std::vector<float> values, reader_.Floats(*stored.tensor));
  if (!stored.is_transposed) return values;
  const auto columns = static_cast<size_t>(stored.dims()[0]);
  const size_t rows = columns == 0 ? 0 : values.size() / columns;
  std::vector<float> transposed(values.size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column)
      transposed[column * rows + row] = values[row * columns + column];
  }
  return transposed;
}

absl::StatusOr<NamedValues> NetworkBuilder::ReadWeights(const std::vector<bool>& needed) const {
  NamedValues weights;
  absl::flat_hash_set<const onnx_schema::Tensor*> stored;
  SharedSize size;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (!needed[i]) continue;
    for (const Weight& weight : drafts_[i].weights) {
      ASSIGN_OR_RETURN(const int64_t count, ElementsOf(*weight.stored.tensor));
      RETURN_IF_ERROR(size.Add(count, !stored.insert(weight.stored.tensor).second));
      ASSIGN_OR_RETURN(weights[absl::StrCat(drafts_[i].layer.name, ".", weight.name)],
                       ReadValues(weight.stored));
    }
  }
  return weights;
}

absl::Status NetworkBuilder::AddLoss(const ImageValue& predictions, Graph& network) const {
  const Shape& shape = predictions.spec.shape;
  if (options_.loss.As<SoftmaxCrossEntropy>() == nullptr) {
    network.TargetLoss(predictions.layer, options_.loss, {shape.c(), shape.h(), shape.w()});
    return absl::OkStatus();
  }
  if (shape.h() * shape.w() == 1) {
    network.Loss(predictions.layer, options_.loss);
    return absl::OkStatus();
  }
  if (predictions.is_flat) {
    return absl::InvalidArgumentError(absl::StrCat("the output '", graph_.output(0).name(),
                                                   "' is an image of ", shape.ToString(),
                                                   " made flat; scores of classes are needed"));
  }
  network.PixelLoss(predictions.layer, options_.loss, shape.h(), shape.w());
  return absl::OkStatus();
}

absl::StatusOr<OnnxModel> NetworkBuilder::Finish(std::string name) const {
  ASSIGN_OR_RETURN(const ImageValue predictions, Predictions());
  OnnxModel model = {.graph = Graph({.name = std::move(name),
                                     .batch = options_.batch,
                                     .dtype = options_.dtype,
                                     .layout = options_.layout})};
  const std::vector<bool> needed = Needed(predictions);
  ASSIGN_OR_RETURN(model.weights, ReadWeights(needed));
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (needed[i]) model.graph.Add(drafts_[i].layer);
  }
  RETURN_IF_ERROR(AddLoss(predictions, model.graph));
  return model;
}

}  // namespace neap::nets
