#include "apps/peak/growth.h"

#include "absl/strings/str_cat.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/outcome.h"
#include "neap/nets/registry.h"

namespace neap::apps {

Growth GrowingBatch() {
  return {.what = "batch",
          .most = kMaxBatch,
          .tries_offloading = true,
          .apply = [](int64_t n, nets::NetOptions& net) { net.batch = n; }};
}

absl::StatusOr<Growth> GrowingDepth(const std::string& net) {
  if (IsOnnxFile(net)) return BadUsage("a network from an ONNX file has a fixed depth");
  const absl::StatusOr<nets::Depths> depths = nets::DepthsOf(net);
  if (!depths.ok()) return AsBadUsage(depths.status());
  if (depths->step == 0) {
    return BadUsage(absl::StrCat("network '", net, "' has a fixed depth; resnet has any 3n+134"));
  }
  return Growth{.what = "depth",
                .most = depths->most_n,
                .apply = [depths = *depths](int64_t n, nets::NetOptions& options) {
                  options.depth = depths.step * n + depths.offset;
                }};
}

}  // namespace neap::apps
