#include "neap/nets/by_name/nnunet_by_name.h"

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/segmentation/nnunet.h"
#include "neap/nets/segmentation/nnunet_plans.h"

namespace neap::nets {
namespace {

constexpr std::string_view kPlansPrefix = "nnunet:";
constexpr std::array<std::string_view, 3> kResEncNames = {"resenc-unet-m", "resenc-unet-l",
                                                          "resenc-unet-xl"};

Graph WithNetOptions(NnUNetOptions planned, const NetOptions& options) {
  planned.graph.batch = options.batch.value_or(planned.graph.batch);
  planned.graph.dtype = options.dtype;
  planned.graph.layout = options.layout;
  planned.channels = options.channels.value_or(planned.channels);
  planned.classes = options.classes.value_or(planned.classes);
  return NnUNet(planned);
}

}  // namespace

Graph NnUNet2dByName(const NetOptions& options) {
  return WithNetOptions(NnUNet2d(options.image.value_or(512)), options);
}

Graph NnUNet3dByName(const NetOptions& options) {
  return WithNetOptions(NnUNet3d(options.image.value_or(128)), options);
}

Graph ResEncUNetOf(int preset, const NetOptions& options) {
  const auto index = static_cast<size_t>(preset);
  NnUNetOptions planned = ResEncUNet3d(options.image.value_or(kResEncEdges[index]));
  planned.graph.name = std::string(kResEncNames[index]);
  return WithNetOptions(std::move(planned), options);
}

bool IsPlansName(std::string_view name) {
  return name.substr(0, kPlansPrefix.size()) == kPlansPrefix;
}

absl::StatusOr<Graph> BuildFromPlans(std::string_view name, const NetOptions& options) {
  if (options.image.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("network '", std::string(name), "' takes no image: the plan has its patch"));
  }
  std::string_view path = name.substr(kPlansPrefix.size());
  NnUNetPlansOptions plans = {.classes = options.classes,
                              .channels = options.channels,
                              .other_normalizations = options.other_normalizations};
  const size_t mark = path.rfind('#');
  if (mark != std::string_view::npos && path.find('/', mark) == std::string_view::npos) {
    plans.configuration = std::string(path.substr(mark + 1));
    path = path.substr(0, mark);
  }
  ASSIGN_OR_RETURN(NnUNetOptions planned, ReadNnUNetPlans(std::string(path), plans));
  NetOptions others = options;  // the plan's reader knows these
  others.channels.reset();
  others.classes.reset();
  return WithNetOptions(std::move(planned), others);
}

}  // namespace neap::nets
