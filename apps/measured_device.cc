#include "apps/measured_device.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/status_macros.h"
#include "neap/layers/profiled_timings.h"
#include "neap/layers/timed_catalog.h"

namespace neap::apps {
namespace {

// `library`: the versions that are here.
const ProfiledDevice* Find(const std::vector<ProfiledDevice>& measured, const std::string& name,
                           const std::string& library) {
  const ProfiledDevice* found = nullptr;
  for (const ProfiledDevice& known : measured) {
    if (known.name != name) continue;
    if (known.versions == library) return &known;
    if (found == nullptr) found = &known;
  }
  return found;
}

absl::StatusOr<ProfiledDevice> Choose(const std::vector<ProfiledDevice>& measured,
                                      const std::string& device) {
  if (measured.empty()) return absl::NotFoundError("nothing was measured");
  if (device.empty()) return measured.front();
  if (const ProfiledDevice* const found = Find(measured, device, "")) return *found;
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPlanTarget(device, ""));
  const std::string& name = target.description.name;
  if (const ProfiledDevice* const found = Find(measured, name, target.engines().Versions()))
    return *found;
  std::vector<std::string> names;
  for (const ProfiledDevice& known : measured) names.push_back(known.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return absl::NotFoundError(
      absl::StrCat("nothing was measured on ", name, ", only on ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<MeasuredDevice> OpenMeasuredDevice(const std::string& database,
                                                  const std::string& device) {
  ASSIGN_OR_RETURN(const std::string path, ProfilePath(database));
  ASSIGN_OR_RETURN(ProfileDatabase opened, ProfileDatabase::OpenToRead(path, {}));
  ASSIGN_OR_RETURN(const std::vector<ProfiledDevice> measured, opened.Devices());
  const absl::StatusOr<ProfiledDevice> chosen = Choose(measured, device);
  if (absl::IsNotFound(chosen.status()))
    return absl::NotFoundError(absl::StrCat(opened.path(), ": ", chosen.status().message()));
  RETURN_IF_ERROR(chosen.status());
  MeasuredDevice result = {
      .device = *chosen,
      .timings = std::make_shared<ProfiledTimings>(std::move(opened).For(*chosen), PrintUnread),
      .catalog = nullptr};
  result.catalog = std::make_unique<TimedCatalog>(*result.timings, chosen->versions, nullptr);
  return result;
}

absl::StatusOr<PlanTarget> OpenPlanTargetBy(const KernelFlags& kernels, const std::string& device,
                                            const std::string& peer) {
  ASSIGN_OR_RETURN(PlanTarget target, OpenPlanTarget(device, peer));
  if (target.device != nullptr) {
    ASSIGN_OR_RETURN(target.kernels, kernels.Options(target.description, target.engines()));
    return target;
  }
  target.kernels = kernels.WithoutTimes();
  ASSIGN_OR_RETURN(std::optional<ProfileDatabase> database, kernels.OpenDatabase({}));
  if (!database.has_value()) return target;
  ASSIGN_OR_RETURN(const std::vector<ProfiledDevice> measured, database->Devices());
  const ProfiledDevice* const found =
      Find(measured, target.description.name, target.engines().Versions());
  if (found == nullptr) return target;
  target.kernels.timings =
      std::make_shared<ProfiledTimings>(std::move(*database).For(*found), PrintUnread);
  target.catalog = std::make_unique<TimedCatalog>(*target.kernels.timings, found->versions,
                                                  std::move(target.catalog));
  return target;
}

}  // namespace neap::apps
