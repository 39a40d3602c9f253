// The engines of a device that is not here: those that were measured on it, and those that its
// library, if that is here, lists by its description. Neither alone is enough: by description a
// library lists fewer engines than on the device itself, and a profile may be of a part of them.
//
//   ASSIGN_OR_RETURN(auto database, ProfileDatabase::OpenToRead(path, {"NVIDIA H200", versions}));
//   const ProfiledTimings timings(std::move(database));
//   TimedCatalog catalog(timings, versions, *DescribedCatalog("h200"));
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"

namespace neap {

// *Ownership*: borrows timings.
class TimedCatalog final : public EngineCatalog {
 public:
  // `library`: null where it is not here.
  TimedCatalog(const KernelTimings& timings, std::string versions,
               std::unique_ptr<EngineCatalog> library)
      : timings_(&timings), versions_(std::move(versions)), library_(std::move(library)) {}

  // Those of a library of the same versions in its order, with the workspace that they had when
  // they were measured, then the others that were, the fastest first. Where nothing was measured,
  // the library's, whatever its versions; without one, an engine without workspace, as in
  // layers/catalog/default_catalog.h, but none that adds to gradients.
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override;
  std::string Versions() const override { return versions_; }

 private:
  std::vector<Engine> Measured(const StepSignature& signature) const;

  const KernelTimings* timings_;
  std::string versions_;
  std::unique_ptr<EngineCatalog> library_;
};

}  // namespace neap
