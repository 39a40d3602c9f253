// nnU-Net's networks with the options that names take (nets/registry.h).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/nets/registry.h"

namespace neap::nets {

// With an edge of 128, 192 and 224: the patches of cubes that nnU-Net plans for 8, 24 and 40 GB, if
// a data set is isotropic.
inline constexpr int64_t kResEncEdges[] = {128, 192, 224};  // M, L, XL

Graph NnUNet2dByName(const NetOptions& options);
Graph NnUNet3dByName(const NetOptions& options);
// `preset` is an index of kResEncEdges.
Graph ResEncUNetOf(int preset, const NetOptions& options);
template <int kPreset>
Graph ResEncUNetByName(const NetOptions& options) {
  return ResEncUNetOf(kPreset, options);
}

// The network of a plans file (nets/segmentation/nnunet_plans.h), by a name for which IsPlansName()
// is true. What follows the last '#' is a configuration unless it has a '/'. Without a batch, that
// of the plan. Errors: those of ReadNnUNetPlans(), and INVALID_ARGUMENT for an image, because the
// plan has its patch.
absl::StatusOr<Graph> BuildFromPlans(std::string_view name, const NetOptions& options);

}  // namespace neap::nets
