#include "apps/measured_device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/device_flag.h"
#include "apps/profile_flags.h"
#include "neap/core/status_macros.h"
#include "neap/layers/profiled_timings.h"
#include "neap/layers/timed_catalog.h"

namespace neap::apps {
namespace {

absl::StatusOr<ProfiledDevice> Choose(const std::vector<ProfiledDevice>& measured,
                                      const std::string& device) {
  const auto find = [&](const std::string& name) {
    return std::find_if(measured.begin(), measured.end(),
                        [&](const ProfiledDevice& known) { return known.name == name; });
  };
  auto found = device.empty() ? measured.begin() : find(device);
  std::string name = device;
  if (found == measured.end() && !device.empty()) {
    ASSIGN_OR_RETURN(const PlanTarget target, OpenPlanTarget(device, ""));
    name = target.description.name;
    found = find(name);
  }
  if (found != measured.end()) return *found;
  if (measured.empty()) return absl::NotFoundError("nothing was measured");
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
  ASSIGN_OR_RETURN(ProfileDatabase whole, ProfileDatabase::OpenToRead(path, {}));
  ASSIGN_OR_RETURN(const std::vector<ProfiledDevice> measured, whole.Devices());
  const absl::StatusOr<ProfiledDevice> chosen = Choose(measured, device);
  if (absl::IsNotFound(chosen.status()))
    return absl::NotFoundError(absl::StrCat(path, ": ", chosen.status().message()));
  RETURN_IF_ERROR(chosen.status());
  ASSIGN_OR_RETURN(ProfileDatabase times, ProfileDatabase::OpenToRead(path, *chosen));
  MeasuredDevice result = {.device = *chosen,
                           .timings = std::make_unique<ProfiledTimings>(std::move(times)),
                           .catalog = nullptr};
  result.catalog = std::make_unique<TimedCatalog>(*result.timings, chosen->versions);
  return result;
}

}  // namespace neap::apps
