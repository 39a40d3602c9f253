#include "neap/layers/tokens/embedding.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

absl::Status CheckIds(const LayerContext& context) {
  if (context.inputs.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes 1 input, ids, got ", context.inputs.size()));
  }
  const TensorSpec& ids = context.inputs[0];
  const auto& dims = ids.shape.dims();
  const bool has_axes = !dims.empty() && dims.size() <= 1 + kMaxSpatialAxes;
  const bool has_elements =
      std::all_of(dims.begin(), dims.end(), [](int64_t extent) { return extent > 0; });
  if (ids.dtype == DType::kInt32 && has_axes && has_elements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ids are ", ids.ToString(), ", expected int32 {N, T}, {N, H, W} or {N}"));
}

absl::Status CheckFields(const Embedding& layer) {
  const int64_t largest = std::numeric_limits<int32_t>::max();
  if (layer.vocabulary <= 0 || layer.vocabulary > largest) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary ", layer.vocabulary, " must be from 1 to ", largest));
  }
  if (layer.channels <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("channels ", layer.channels, " must be positive"));
  }
  if (!layer.padding.has_value() || (*layer.padding >= 0 && *layer.padding < layer.vocabulary))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("padding ", *layer.padding, " must be an id below ", layer.vocabulary));
}

}  // namespace

std::string Embedding::Parameters() const {
  const std::string sizes = ParameterText({{"vocabulary", vocabulary}, {"channels", channels}});
  if (!padding.has_value()) return sizes;
  return absl::StrCat(sizes, " ", ParameterText({{"padding", *padding}}));
}

absl::StatusOr<LayerSpec> Embedding::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckIds(context));
  RETURN_IF_ERROR(CheckFields(*this));
  const auto& ids = context.inputs[0].shape.dims();
  std::vector<int64_t> positions(ids.begin() + 1, ids.end());
  if (positions.empty()) positions = {1, 1};
  const std::vector<int64_t> ones(positions.size(), 1);
  const auto in_network = [&](Shape shape) -> TensorSpec {
    return {.shape = std::move(shape), .dtype = context.dtype, .layout = context.layout};
  };
  const Shape table = {vocabulary, channels};
  LayerSpec spec = {.output = in_network(SpatialShape(ids[0], channels, positions)),
                    .params = {{.name = "weight",
                                .tensor = in_network(SpatialShape(vocabulary, channels, ones)),
                                .init = WeightInit(init, table),
                                .saved_shape = table}},
                    .index_count = vocabulary,
                    .traits = {.independent_images = true, .paper_reads_output = false}};
  spec.steps.push_back({.reads = {X(), Param(0)}, .writes = {Y()}});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardParams,
                        .reads = {X(), Dy()},
                        .writes = {ParamGrad(0)},
                        .accumulates_natively = {Slot::kParamGrad},
                        .flops = static_cast<double>(spec.output.elements())});
  return spec;
}

}  // namespace neap
