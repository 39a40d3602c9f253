#include "neap/layers/profile/installed_timings.h"

#include <algorithm>
#include <iterator>

#include "neap/core/step/signature_text.h"

namespace neap {

InstalledTimings::InstalledTimings(std::shared_ptr<const KernelTimings> own,
                                   const InstalledProfile& profile, const std::string& versions)
    : own_(std::move(own)),
      profile_(profile),
      is_of_same_versions_(profile.device().versions == versions) {}

bool InstalledTimings::HasFailed(const StepSignature& signature, const TimedEngine& engine) const {
  const std::vector<std::string> failed = own_->FailedOn(
      engine.batch == BatchOf(signature) ? signature : WithBatch(signature, engine.batch));
  return std::find(failed.begin(), failed.end(), engine.engine) != failed.end();
}

std::vector<TimedEngine> InstalledTimings::Of(const StepSignature& signature) const {
  std::vector<TimedEngine> known;
  if (own_ != nullptr) known = own_->Of(signature);
  const auto own_rows = std::ssize(known);
  for (TimedEngine& engine : profile_.Of(SignatureText(signature))) {
    const bool is_known =
        std::any_of(known.begin(), known.begin() + own_rows,
                    [&](const TimedEngine& own) { return own.use() == engine.use(); });
    if (is_known || (own_ != nullptr && HasFailed(signature, engine))) continue;
    if (!is_of_same_versions_) engine.source = TimeSource::kInterpolated;
    if (engine.batch == BatchOf(signature)) has_added_ = true;
    known.push_back(std::move(engine));
  }
  return known;
}

std::vector<std::string> InstalledTimings::FailedOn(const StepSignature& signature) const {
  return own_ != nullptr ? own_->FailedOn(signature) : std::vector<std::string>{};
}

std::vector<TimedSum> InstalledTimings::Sums(int ranks) const {
  return own_ != nullptr ? own_->Sums(ranks) : std::vector<TimedSum>{};
}

std::shared_ptr<const KernelTimings> WithInstalledTimings(std::shared_ptr<const KernelTimings> own,
                                                          const ProfiledDevice& device) {
  const InstalledProfile* const profile = FindInstalledProfile(device.name);
  if (profile == nullptr) return own;
  return std::make_shared<InstalledTimings>(std::move(own), *profile, device.versions);
}

}  // namespace neap
