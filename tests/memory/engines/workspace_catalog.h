// A catalog whose engines differ in workspace, and their times, for tests of who gets which bytes.
#pragma once

#include <string>
#include <vector>

#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/catalog/kernel_timings.h"

namespace neap::testing {

// Convolutions have three engines, the fastest with the largest workspace, and one that may not be
// used.
class WorkspaceCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (!IsDivisible(signature)) return std::vector<Engine>{{.id = std::string(kOwnEngine)}};
    const int64_t bytes = signature.operands.back().tensor.size_bytes();
    return std::vector<Engine>{{.id = "unstable", .workspace_bytes = 0, .deterministic = false},
                               {.id = "fast", .workspace_bytes = 40 * bytes},
                               {.id = "medium", .workspace_bytes = 4 * bytes + 700},
                               {.id = "small", .workspace_bytes = 600}};
  }
  std::string Versions() const override { return ""; }
};

// Those engines, with times that make workspace worth having: milliseconds a megabyte of output,
// less in more workspace. Only the fast ones were measured if `fast_only`.
class WorkspaceTimings final : public KernelTimings {
 public:
  explicit WorkspaceTimings(double ms_per_megabyte = 1, bool fast_only = false)
      : ms_per_megabyte_(ms_per_megabyte), fast_only_(fast_only) {}

  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    if (!IsDivisible(signature)) return {};
    WorkspaceCatalog catalog;
    const auto bytes = static_cast<double>(signature.operands.back().tensor.size_bytes());
    const double seconds = bytes * 1e-9 * ms_per_megabyte_;
    std::vector<TimedEngine> timed;
    const std::vector<Engine> engines = catalog.Engines(signature).value();
    for (const Engine& engine : engines) {
      if (fast_only_ && engine.id != "fast") continue;
      const double part = engine.id == "fast" ? 0.1 : engine.id == "medium" ? 0.3 : 1;
      timed.push_back({engine.id, BatchOf(signature), engine.workspace_bytes, part * seconds});
    }
    return timed;
  }

 private:
  double ms_per_megabyte_;
  bool fast_only_;
};

}  // namespace neap::testing
