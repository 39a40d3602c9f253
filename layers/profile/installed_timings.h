// Measured times, with those that come with the library (layers/profile/installed_profile.h) where
// they have none.
//
//   kernels.timings = WithInstalledTimings(std::move(measured), {device.name, catalog.Versions()});
//
// Engines of other versions of cuDNN may take other times. Installed times count as measured only
// if they are of the versions whose engines a plan chooses from; otherwise as estimated
// (TimeSource::kInterpolated), so that a session measures what matters (MeasureKernels).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/profile/installed_profile.h"
#include "neap/layers/profile/profile_row.h"

namespace neap {

class InstalledTimings final : public KernelTimings {
 public:
  // `own` may be null. `versions` are those of the engines that are timed.
  InstalledTimings(std::shared_ptr<const KernelTimings> own, const InstalledProfile& profile,
                   const std::string& versions);

  // The own rows, and the installed ones of all batches for which an engine has no own row and is
  // not known to have failed.
  std::vector<TimedEngine> Of(const StepSignature& signature) const override;
  std::vector<std::string> FailedOn(const StepSignature& signature) const override;
  std::vector<TimedSum> Sums(int ranks) const override;

  bool has_own() const { return own_ != nullptr; }
  const ProfiledDevice& device() const { return profile_.device(); }
  bool is_of_same_versions() const { return is_of_same_versions_; }
  // Whether any row of a whole batch was added so far.
  bool has_added() const { return has_added_; }

 private:
  bool HasFailed(const StepSignature& signature, const TimedEngine& engine) const;

  const std::shared_ptr<const KernelTimings> own_;
  const InstalledProfile& profile_;
  const bool is_of_same_versions_;
  mutable std::atomic<bool> has_added_ = false;
};

// `own`, which may be null, if the library has no times of a device of this name.
std::shared_ptr<const KernelTimings> WithInstalledTimings(std::shared_ptr<const KernelTimings> own,
                                                          const ProfiledDevice& device);

}  // namespace neap
