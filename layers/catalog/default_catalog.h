// Engines for a device that is known by its description only: one per step, without workspace.
// A step of a custom layer has the engine of its registered kernel, or the error of EngineOf().
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap {

inline constexpr std::string_view kDefaultEngine = "default";

class DefaultCatalog final : public EngineCatalog {
 public:
  explicit DefaultCatalog(std::vector<CustomKernel> custom = {}) : custom_(std::move(custom)) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    const CustomKernel* const kernel = FindKernel(custom_, signature);
    if (kernel == nullptr) return std::vector<Engine>{{.id = std::string(kDefaultEngine)}};
    ASSIGN_OR_RETURN(Engine engine, EngineOf(*kernel, signature));
    return std::vector<Engine>{std::move(engine)};
  }
  std::string Versions() const override { return ""; }

 private:
  std::vector<CustomKernel> custom_;
};

}  // namespace neap
