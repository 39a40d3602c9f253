// A catalog with one engine without workspace for each step, so that plans do not depend on the
// libraries of a build.
#pragma once

#include <string>
#include <vector>

#include "neap/core/step/kernel.h"

namespace neap::testing {

class OneEngine final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{}};
  }
  std::string Versions() const override { return ""; }
};

}  // namespace neap::testing
