// The engines of a device of which nothing but its description is known: one per step, without
// workspace.
#pragma once

#include <string>
#include <vector>

#include "neap/layers/kernel.h"

namespace neap {

class DefaultCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = "default"}};
  }
  std::string Versions() const override { return ""; }
};

}  // namespace neap
