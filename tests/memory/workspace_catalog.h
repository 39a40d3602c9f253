// A catalog whose engines differ in workspace, for tests of who gets which bytes.
#pragma once

#include <vector>

#include "neap/layers/convolution.h"
#include "neap/layers/kernel.h"

namespace neap::testing {

// Convolutions have three engines, the fastest with the largest workspace, and one that may not be
// used.
class WorkspaceCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (signature.layer.type() != Convolution::kType || signature.phase == Phase::kUpdate) {
      return std::vector<Engine>{{.id = "only"}};
    }
    const int64_t bytes = signature.operands.back().tensor.size_bytes();
    return std::vector<Engine>{{.id = "unstable", .workspace_bytes = 0, .deterministic = false},
                               {.id = "fast", .workspace_bytes = 40 * bytes},
                               {.id = "medium", .workspace_bytes = 4 * bytes + 700},
                               {.id = "small", .workspace_bytes = 600}};
  }
  std::string Versions() const override { return ""; }
};

}  // namespace neap::testing
