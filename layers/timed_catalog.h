// The engines that were measured, as a catalog: for choosing by a profile database of a device that
// is not here and whose libraries, which would list them, are not either.
//
//   ASSIGN_OR_RETURN(auto database, ProfileDatabase::OpenToRead(path, {"NVIDIA H200", versions}));
//   const ProfiledTimings timings(std::move(database));
//   TimedCatalog catalog(timings, versions);
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/divisible_step.h"
#include "neap/layers/kernel.h"
#include "neap/layers/kernel_timings.h"
#include "neap/layers/signature_text.h"

namespace neap {

// *Ownership*: borrows timings.
class TimedCatalog final : public EngineCatalog {
 public:
  TimedCatalog(const KernelTimings& timings, std::string versions)
      : timings_(&timings), versions_(std::move(versions)) {}

  // The fastest first; one without workspace where nothing was measured, as in
  // layers/default_catalog.h, but none that adds to gradients.
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    std::vector<TimedEngine> timed = timings_->Of(signature);
    std::erase_if(timed, [batch = BatchOf(signature)](const TimedEngine& engine) {
      return engine.batch != batch;
    });
    std::stable_sort(timed.begin(), timed.end(), [](const TimedEngine& a, const TimedEngine& b) {
      return a.seconds < b.seconds;
    });
    std::vector<Engine> engines;
    for (const TimedEngine& engine : timed)
      engines.push_back({engine.engine, engine.workspace_bytes, engine.deterministic});
    if (engines.empty() && !AddsToGradients(signature)) engines.push_back({.id = "default"});
    return engines;
  }
  std::string Versions() const override { return versions_; }

 private:
  const KernelTimings* timings_;
  std::string versions_;
};

}  // namespace neap
