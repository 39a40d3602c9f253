// The engines of a device that is not present: those that were measured on it, and those that its
// library, if installed, lists for its description. Neither is enough by itself: for a description
// a library lists fewer engines than on the device, and a profile may cover only some engines.
//
//   ASSIGN_OR_RETURN(auto database, ProfileDatabase::OpenToRead(path, {"NVIDIA H200", versions}));
//   const ProfiledTimings timings(std::move(database));
//   ASSIGN_OR_RETURN(std::unique_ptr<EngineCatalog> library, DescribedCatalog("h200"));
//   MeasuredCatalog catalog(timings, versions, std::move(library));
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/layers/catalog/kernel_timings.h"

namespace neap {

// *Ownership*: borrows timings.
class MeasuredCatalog final : public EngineCatalog {
 public:
  // `library` is null if it is not installed; it lists engines by the same options.
  MeasuredCatalog(const KernelTimings& timings, std::string versions,
                  std::unique_ptr<EngineCatalog> library, const EngineOptions& options = {})
      : timings_(&timings),
        versions_(std::move(versions)),
        library_(std::move(library)),
        options_(options) {}

  // If the library has the same versions: its engines in its order, with the workspace that they
  // had when measured, followed by the other measured engines, fastest first. Engines whose times
  // are not of these versions (TimeSource::kInterpolated) count as measured only where there is no
  // library and no other one. If nothing was measured for the step: the library's engines, whatever
  // its versions; without a library, one engine without workspace
  // (layers/catalog/default_catalog.h), and none that adds to gradients.
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override;
  std::string Versions() const override { return versions_; }

 private:
  std::vector<Engine> Measured(const StepSignature& signature) const;

  const KernelTimings* timings_;
  std::string versions_;
  std::unique_ptr<EngineCatalog> library_;
  EngineOptions options_;
};

}  // namespace neap
