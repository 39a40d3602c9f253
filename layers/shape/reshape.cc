#include "neap/layers/shape/reshape.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {
namespace {

// The shape that `to` makes of x; nullopt if it has other elements, or no valid extents.
std::optional<Shape> Reshaped(const std::vector<int64_t>& to, const Shape& x) {
  if (to.size() < 2 || to.size() > 1 + kMaxSpatialAxes) return std::nullopt;
  Shape::Dims dims = {x.n()};
  int64_t known = x.n();
  size_t open = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    const int axis = static_cast<int>(i) + 1;
    if (to[i] < -1 || (to[i] == 0 && axis >= x.rank())) return std::nullopt;
    dims.push_back(to[i] == 0 ? x[axis] : to[i]);
    if (dims.back() == -1 && open != 0) return std::nullopt;
    if (dims.back() == -1) {
      open = dims.size() - 1;
    } else {
      known = SaturatingProduct(known, dims.back());
    }
  }
  if (open != 0) dims[open] = x.elements() / known;
  Shape shape(std::move(dims));
  return shape.elements() == x.elements() ? std::optional(shape) : std::nullopt;
}

bool AreMultiples(int64_t a, int64_t b) { return a % b == 0 || b % a == 0; }

}  // namespace

bool KeepsOrder(const TensorSpec& x, const TensorSpec& y) {
  const auto is_vector = [](const Shape& shape) {
    return shape.c() == 1 || shape.positions() == 1;
  };
  return x.layout == Layout::kChannelsFirst || x.shape.c() == y.shape.c() ||
         (is_vector(x.shape) && is_vector(y.shape));
}

std::string Reshape::Parameters() const { return absl::StrCat("to=", absl::StrJoin(to, ",")); }

absl::StatusOr<LayerSpec> Reshape::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const std::optional<Shape> shape = Reshaped(to, x.shape);
  if (!shape.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reshape ", x.shape.ToString(), " to N, ", absl::StrJoin(to, ", ")));
  }
  LayerSpec spec = CopySteps(WithShape(x, *shape), context.mode);
  if (KeepsOrder(x, spec.output)) {
    spec.steps[0].in_place = {{Y(), X()}};
    if (spec.steps.size() > 1) spec.steps[1].in_place = {{Dx(), Dy()}};
  } else if (!AreMultiples(x.shape.c(), shape->c())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot reshape ", x.shape.ToString(), " to ", shape->ToString(), " in channels-last: of ",
        x.shape.c(), " and ", shape->c(), " channels, neither is a multiple of the other"));
  }
  return spec;
}

}  // namespace neap
