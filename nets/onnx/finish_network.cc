// The last steps of reading a network: joining layers, and the weights.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/constants/constant_math.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/norms/norm_layers.h"

namespace neap::nets {
namespace {

// How many values layers have of the file's tensors. A small file may let many layers share a large
// tensor, of which each gets a copy.
class SharedSize {
 public:
  absl::Status Add(int64_t count, bool is_shared) {
    constexpr int64_t kMaxCopies = 16;
    constexpr int64_t kAlways = int64_t{1} << 22;
    copied_ += count;
    if (!is_shared) stored_ += count;
    if (copied_ <= kAlways || copied_ / kMaxCopies <= stored_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("its layers share tensors so often that ",
                                                   stored_, " values would become ", copied_));
  }

 private:
  int64_t stored_ = 0;
  int64_t copied_ = 0;
};

Weight* FindWeight(std::vector<Weight>& weights, std::string_view name) {
  const auto found = std::find_if(weights.begin(), weights.end(),
                                  [&](const Weight& weight) { return weight.name == name; });
  return found == weights.end() ? nullptr : &*found;
}

// A layer of a type that has a field `bias`, with bias; empty if it has no such field.
std::optional<Layer> WithBias(const Layer& layer) {
  if (const auto* const fc = layer.As<FullyConnected>()) {
    FullyConnected with_bias = *fc;
    with_bias.bias = true;
    return with_bias;
  }
  if (const auto* const conv = layer.As<Convolution>()) {
    Convolution with_bias = *conv;
    with_bias.bias = true;
    return with_bias;
  }
  return std::nullopt;
}

// The most parameters of a norm behind which such constants may become the next one.
size_t MaxParamsBefore(Constants kind) { return kind == Constants::kAdds ? 1 : 0; }

// Whether a layer in a file of neap's is one of the two behind a norm that are its parameters.
bool IsPartOfNorm(const std::string& layer, const std::string& norm) {
  return layer == absl::StrCat(norm, ".scaled") || layer == absl::StrCat(norm, ".shifted");
}

bool AllEqual(const std::vector<float>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

std::string Quoted(const std::set<std::string>& names) {
  return absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
    absl::StrAppend(out, "'", absl::CHexEscape(name.substr(0, 200)), "'");
  });
}

}  // namespace

absl::StatusOr<Constant> NetworkBuilder::ReadConstant(const Stored& stored) {
  ASSIGN_OR_RETURN(const int64_t count, ElementsOf(*stored.tensor));
  ASSIGN_OR_RETURN(Constant constant, reader_.ReadConstant(*stored.tensor));
  constants_.Read(*stored.tensor, count);
  if (stored.reshaped.has_value()) constant.dims = *stored.reshaped;
  RETURN_IF_ERROR(constants_.Add(constant.dims));
  if (stored.repeats > 1) {
    RETURN_IF_ERROR(constants_.Add(stored.dims()));
    return BroadcastTo(constant, stored.dims());
  }
  if (!stored.is_transposed) return constant;
  const int64_t columns = constant.dims.back(), rows = count / std::max<int64_t>(columns, 1);
  Constant transposed = View(constant, {columns, rows}, {1, columns});
  transposed.dims = stored.dims();
  return transposed;
}

absl::StatusOr<Constant> NetworkBuilder::ReadConstant(const Weight& weight) {
  if (const auto* const stored = std::get_if<Stored>(&weight.tensor)) return ReadConstant(*stored);
  return std::get<Constant>(weight.tensor);
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

std::vector<int64_t> NetworkBuilder::ReaderCounts(const ImageValue& predictions) const {
  const std::vector<bool> needed = Needed(predictions);
  std::vector<int64_t> counts(drafts_.size(), 0);
  counts[draft_of_.at(predictions.layer)] = 1;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (!needed[i]) continue;
    for (const std::string& input : drafts_[i].layer.inputs) ++counts[draft_of_.at(input)];
  }
  return counts;
}

bool NetworkBuilder::TakesConstants(const ImageValue& x, Constants kind) const {
  const Draft* draft = &drafts_[draft_of_.at(x.layer)];
  size_t params = 0;  // that the norm has, or gets
  if (draft->constants == Constants::kMultiplies) {
    draft = &drafts_[draft_of_.at(draft->layer.inputs[0])];
    ++params;
  }
  params += draft->weights.size();
  return IsNorm(draft->layer.layer) && params <= MaxParamsBefore(kind);
}

bool NetworkBuilder::JoinNorm(Draft& before, Draft& draft) {
  const bool adds = draft.constants == Constants::kAdds;
  const int64_t channels = before.spec.output.shape.c();
  std::vector<Weight>& weights = before.weights;
  if (weights.size() > MaxParamsBefore(draft.constants)) return false;
  if (adds && weights.empty()) weights.push_back(PlaceholderWeight(channels));
  weights.push_back(std::move(draft.weights[0]));
  weights.back().name = adds ? "bias" : "weight";
  if (draft.stored.has_value()) weights.back().tensor = *draft.stored;
  weights.back().Flatten(channels);
  before.layer.layer = WithParameters(before.layer.layer, /*bias=*/adds);
  before.spec = before.layer.layer.Specify({.inputs = {before.spec.output}}).value();
  return true;
}

absl::StatusOr<bool> NetworkBuilder::Join(Draft& before, Draft& draft) {
  if (written_by_neap() && !IsPartOfNorm(draft.layer.name, before.layer.name)) return false;
  if (IsNorm(before.layer.layer)) return JoinNorm(before, draft);
  if (before.layer.layer.As<ScaleShift>() != nullptr && !before.weights.empty())
    return JoinScale(before, draft);
  std::optional<Layer> with_bias = WithBias(before.layer.layer);
  if (draft.constants != Constants::kAdds || !with_bias.has_value()) return false;
  Weight& added = draft.weights[0];
  added.name = "bias";
  added.Flatten(before.spec.output.shape.c());
  if (Weight* const bias = FindWeight(before.weights, "bias")) {
    ASSIGN_OR_RETURN(const Constant own, ReadConstant(*bias));
    ASSIGN_OR_RETURN(bias->tensor,
                     Elementwise(constants_, "Add", {own, std::get<Constant>(added.tensor)}));
    return true;
  }
  before.layer.layer = *std::move(with_bias);
  before.weights.push_back(std::move(added));
  return true;
}

absl::Status NetworkBuilder::JoinConstants(ImageValue& predictions) {
  std::vector<int64_t> readers = ReaderCounts(predictions);
  absl::flat_hash_map<std::string, std::string> instead;  // of a layer that has joined another
  for (size_t i = 0; i < drafts_.size(); ++i) {
    Draft& draft = drafts_[i];
    for (std::string& input : draft.layer.inputs) {
      if (const auto other = instead.find(input); other != instead.end()) input = other->second;
    }
    if (readers[i] == 0 || draft.constants == Constants::kNone) continue;
    const std::string& input = draft.layer.inputs[0];
    const size_t before = draft_of_.at(input);
    if (readers[before] != 1) continue;
    ASSIGN_OR_RETURN(const bool joined, Join(drafts_[before], draft));
    if (!joined) continue;
    instead[draft.layer.name] = input;
    readers[before] = readers[i];
  }
  if (const auto other = instead.find(predictions.layer); other != instead.end())
    predictions.layer = other->second;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> NetworkBuilder::ReadValues(const Weight& weight) {
  if (const auto* const constant = std::get_if<Constant>(&weight.tensor))
    return std::vector<float>(constant->values.begin(), constant->values.end());
  const auto& stored = std::get<Stored>(weight.tensor);
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

absl::StatusOr<NamedValues> NetworkBuilder::ReadWeights(const std::vector<bool>& needed) {
  NamedValues weights;
  absl::flat_hash_set<const onnx_schema::Tensor*> tensors;
  SharedSize size;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (!needed[i]) continue;
    for (const Weight& weight : drafts_[i].weights) {
      if (const auto* const stored = std::get_if<Stored>(&weight.tensor)) {
        ASSIGN_OR_RETURN(const int64_t count, ElementsOf(*stored->tensor));
        RETURN_IF_ERROR(size.Add(count, !tensors.insert(stored->tensor).second));
      }
      ASSIGN_OR_RETURN(weights[absl::StrCat(drafts_[i].layer.name, ".", weight.name)],
                       ReadValues(weight));
    }
  }
  return weights;
}

bool NetworkBuilder::IsSameParam(const Draft& draft, const Weight& weight, const Draft& other,
                                 const Weight& weight_of_other) {
  const auto* const a = std::get_if<Stored>(&weight.tensor);
  const auto* const b = std::get_if<Stored>(&weight_of_other.tensor);
  if (a == nullptr || b == nullptr || a->is_transposed != b->is_transposed) return false;
  const auto spec_of = [](const LayerSpec& spec, std::string_view name) -> const TensorSpec* {
    for (const ParamSpec& param : spec.params) {
      if (param.name == name) return &param.tensor;
    }
    return nullptr;
  };
  const TensorSpec* const one = spec_of(draft.spec, weight.name);
  const TensorSpec* const two = spec_of(other.spec, weight_of_other.name);
  return one != nullptr && two != nullptr && *one == *two;
}

// Exporters make one tensor of several whose values are equal, and an Identity of each of the
// others. Values that are all the same number are such a tensor; any other is one that nodes share.
void NetworkBuilder::ShareWeights(const std::vector<bool>& needed, OnnxModel& model) const {
  struct Use {
    const Draft* draft;
    const Weight* weight;
    std::string name() const { return absl::StrCat(draft->layer.name, ".", weight->name); }
  };
  std::map<std::pair<const onnx_schema::Tensor*, std::string>, std::vector<Use>> uses;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (!needed[i]) continue;
    for (const Weight& weight : drafts_[i].weights) {
      const auto* const stored = std::get_if<Stored>(&weight.tensor);
      const bool is_stored = stored != nullptr;
      uses[{is_stored ? stored->tensor : nullptr, is_stored ? "" : weight.value}].push_back(
          {&drafts_[i], &weight});
    }
  }
  std::map<std::set<std::string>, std::set<std::string>> copied;  // names by nodes
  for (auto& [tensor, all] : uses) {
    if (tensor.first != nullptr) {  // the parameter after which the tensor is called is the owner
      std::stable_partition(all.begin(), all.end(), [&stored = *tensor.first](const Use& use) {
        return use.name() == stored.name();
      });
    }
    std::set<std::string> names, nodes;
    for (const Use& use : all) {
      names.insert(use.weight->value);
      nodes.insert(use.draft->node);
    }
    const bool is_copied =
        names.size() > 1 && !written_by_neap() && AllEqual(model.weights.at(all[0].name()));
    if (nodes.size() < 2 || is_copied || names.contains("")) continue;
    bool are_all_shared = true;
    for (size_t i = 1; i < all.size(); ++i) {
      const bool is_shared =
          IsSameParam(*all[0].draft, *all[0].weight, *all[i].draft, *all[i].weight);
      are_all_shared = are_all_shared && is_shared;
      if (!is_shared) continue;
      model.graph.Share(all[i].name(), all[0].name());
      model.weights.erase(all[i].name());
    }
    const bool is_named = tensor.first != nullptr && !tensor.first->name().empty();
    if (!are_all_shared) copied[nodes].insert(is_named ? tensor.first->name() : *names.begin());
  }
  for (const auto& [nodes, names] : copied) {
    model.notices.push_back(absl::StrCat("the nodes ", Quoted(nodes), " share ", Quoted(names),
                                         ", of which each of them has a copy of its own"));
  }
}

absl::StatusOr<OnnxModel> NetworkBuilder::Finish(std::string name) {
  ASSIGN_OR_RETURN(ImageValue predictions, Predictions());
  RETURN_IF_ERROR(JoinConstants(predictions));
  OnnxModel model = {.graph = Graph({.name = std::move(name),
                                     .batch = batch_,
                                     .dtype = options_.dtype,
                                     .layout = options_.layout})};
  const std::vector<bool> needed = Needed(predictions);
  ASSIGN_OR_RETURN(model.weights, ReadWeights(needed));
  for (size_t i = 0; i < drafts_.size(); ++i) {
    if (needed[i]) model.graph.Add(drafts_[i].layer);
  }
  ShareWeights(needed, model);
  RETURN_IF_ERROR(AddLoss(predictions, model.graph));
  return model;
}

}  // namespace neap::nets
