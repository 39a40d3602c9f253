#include "neap/layers/channel_split.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {

std::string ChannelSplit::Parameters() const {
  return absl::StrCat("channels=", absl::StrJoin(channels, ","));
}

absl::StatusOr<LayerSpec> ChannelSplit::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  int64_t rest = x.shape.c();
  bool fits = !channels.empty();
  for (int64_t count : channels) {
    fits = fits && count >= 1 && count <= rest;
    if (fits) rest -= count;
  }
  if (!fits || rest != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot split ", x.shape.c(), " channels into ",
                     channels.empty() ? "no parts" : absl::StrJoin(channels, " + ")));
  }
  const auto part = [&](int64_t count) {
    return WithShape(x, SpatialShape(x.shape.n(), count, x.shape.spatial()));
  };
  LayerSpec spec = CopySteps(part(channels[0]), context.mode);
  for (int i = 1; i < std::ssize(channels); ++i) {
    spec.further_outputs.push_back(part(channels[static_cast<size_t>(i)]));
    spec.steps[0].writes.push_back(Y(i));
    if (spec.steps.size() > 1) spec.steps[1].reads.push_back(Dy(i));
  }
  return spec;
}

}  // namespace neap
