#include "neap/core/graph/source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/step/specify.h"

namespace neap {

absl::StatusOr<LayerSpec> Feed::Specify(const LayerContext& context) const {
  if (!context.inputs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("is a feed and takes no inputs, got ", context.inputs.size()));
  }
  const bool has_extents = std::all_of(tensor.shape.dims().begin(), tensor.shape.dims().end(),
                                       [](int64_t extent) { return extent >= 1; });
  if (!has_extents)
    return absl::InvalidArgumentError(
        absl::StrCat("its tensor, ", tensor.ToString(), ", is empty"));
  if (tensor.size_bytes() > kMaxTensorBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its tensor, ", tensor.ToString(), ", is larger than 16 TiB"));
  }
  return LayerSpec{.output = tensor};
}

std::string Feed::Parameters() const {
  return absl::StrCat(tensor.ToString(), has_network_type ? "" : " whatever the network's type");
}

Shape LabelShape(const Shape& predictions) {
  Shape::Dims dims = {predictions.n()};
  if (predictions.positions() > 1)
    dims.insert(dims.end(), predictions.spatial().begin(), predictions.spatial().end());
  return Shape(std::move(dims));
}

}  // namespace neap
