// The engines of a device of which nothing but its description is known: one per step, without
// workspace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "neap/core/step/kernel.h"

namespace neap {

inline constexpr std::string_view kDefaultEngine = "default";

class DefaultCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = std::string(kDefaultEngine)}};
  }
  std::string Versions() const override { return ""; }
};

}  // namespace neap
