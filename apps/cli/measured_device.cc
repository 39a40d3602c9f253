#include "apps/cli/measured_device.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/catalog/measured_catalog.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/profile/installed_profile.h"

namespace neap::apps {
namespace {

// The versions of the libraries installed here; they do not depend on the device.
std::vector<std::string> VersionsHere() {
  std::vector<std::string> versions = {MakeCpuBackend()->Versions()};
  const absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = DescribedCatalog("h200");
  if (catalog.ok()) versions.push_back((*catalog)->Versions());
  return versions;
}

// Finds a device by its name in the database. `measured` is in the database's order, newest first.
const ProfiledDevice* Find(const std::vector<ProfiledDevice>& measured, const std::string& name) {
  const std::vector<std::string> here = VersionsHere();
  const ProfiledDevice* found = nullptr;
  for (const ProfiledDevice& known : measured) {
    if (known.name != name) continue;
    if (std::find(here.begin(), here.end(), known.versions) != here.end()) return &known;
    if (found == nullptr) found = &known;
  }
  return found;
}

// The device's name in the database. Errors: those of OpenPlanTarget().
absl::StatusOr<std::string> NameOf(const std::vector<ProfiledDevice>& measured,
                                   const std::string& device) {
  if (device.empty()) return measured.front().name;
  const bool is_name =
      std::any_of(measured.begin(), measured.end(),
                  [&](const ProfiledDevice& known) { return known.name == device; });
  if (is_name) return device;
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPlanTarget(device));
  return target.description.name;
}

absl::StatusOr<ProfiledDevice> Choose(const std::vector<ProfiledDevice>& measured,
                                      const std::string& device) {
  if (measured.empty()) return absl::NotFoundError("nothing was measured");
  ASSIGN_OR_RETURN(const std::string name, NameOf(measured, device));
  if (const ProfiledDevice* const found = Find(measured, name)) return *found;
  std::vector<std::string> names;
  for (const ProfiledDevice& known : measured) names.push_back(known.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return absl::NotFoundError(
      absl::StrCat("nothing was measured on ", name, ", only on ", absl::StrJoin(names, ", ")));
}

// The database's times of a device, and in `timed` the versions that they are of; null if it has
// none. Errors: those of KernelFlags::OpenDatabase().
absl::StatusOr<std::shared_ptr<const KernelTimings>> OwnTimes(const KernelFlags& kernels,
                                                              ProfiledDevice& timed,
                                                              ProfiledTimings::OnError on_unread) {
  ASSIGN_OR_RETURN(std::optional<ProfileDatabase> database, kernels.OpenDatabase({}));
  if (!database.has_value()) return nullptr;
  ASSIGN_OR_RETURN(const std::vector<ProfiledDevice> measured, database->Devices());
  const ProfiledDevice* const found = Find(measured, timed.name);
  if (found == nullptr) return nullptr;
  timed = *found;
  return std::make_shared<ProfiledTimings>(std::move(*database).For(*found), std::move(on_unread));
}

}  // namespace

absl::StatusOr<MeasuredDevice> OpenMeasuredDevice(const std::string& database,
                                                  const std::string& device,
                                                  const EngineOptions& engines,
                                                  ProfiledTimings::OnError on_unread) {
  ASSIGN_OR_RETURN(const std::string path, ProfilePath(database));
  ASSIGN_OR_RETURN(ProfileDatabase opened, ProfileDatabase::OpenToRead(path, {}));
  ASSIGN_OR_RETURN(const std::vector<ProfiledDevice> measured, opened.Devices());
  const absl::StatusOr<ProfiledDevice> chosen = Choose(measured, device);
  if (absl::IsNotFound(chosen.status()))
    return absl::NotFoundError(absl::StrCat(opened.path(), ": ", chosen.status().message()));
  RETURN_IF_ERROR(chosen.status());
  MeasuredDevice result = {.device = *chosen,
                           .timings = std::make_shared<ProfiledTimings>(
                               std::move(opened).For(*chosen), std::move(on_unread)),
                           .catalog = nullptr};
  result.catalog =
      std::make_unique<MeasuredCatalog>(*result.timings, chosen->versions, nullptr, engines);
  return result;
}

absl::StatusOr<PlanTarget> OpenPlanTargetBy(const KernelFlags& kernels, const std::string& device,
                                            const std::string& peer,
                                            ProfiledTimings::OnError on_unread,
                                            std::vector<CustomKernel> cpu_kernels) {
  ASSIGN_OR_RETURN(PlanTarget target,
                   OpenPlanTarget(device, {.peer = peer,
                                           .engines = kernels.engines,
                                           .cpu_kernels = std::move(cpu_kernels)}));
  if (target.device != nullptr) {
    ASSIGN_OR_RETURN(target.kernels,
                     kernels.Options(target.description, target.engines(), std::move(on_unread)));
    return target;
  }
  target.kernels = kernels.WithoutTimes();
  if (!kernels.reads_database()) return target;
  ProfiledDevice timed = {.name = target.description.name, .versions = target.engines().Versions()};
  ASSIGN_OR_RETURN(target.kernels.timings, OwnTimes(kernels, timed, std::move(on_unread)));
  if (kernels.reads_installed_times()) {
    // Without the library, the engines are those with times.
    const InstalledProfile* const installed = FindInstalledProfile(timed.name);
    if (target.kernels.timings == nullptr && installed != nullptr && !target.unlisted.ok())
      timed = installed->device();
    target.kernels.timings = WithInstalledTimings(std::move(target.kernels.timings), timed);
  }
  if (target.kernels.timings == nullptr) return target;
  if (target.engines().Versions() != timed.versions)
    target.other_versions = target.engines().Versions();
  target.catalog = std::make_unique<MeasuredCatalog>(*target.kernels.timings, timed.versions,
                                                     std::move(target.catalog), kernels.engines);
  return target;
}

const InstalledTimings* UsedInstalledTimings(const PlanTarget& target) {
  const auto* const installed = dynamic_cast<const InstalledTimings*>(target.kernels.timings.get());
  return installed != nullptr && installed->has_added() ? installed : nullptr;
}

std::string MeasuredWith(const PlanTarget& target, const PlanningStats& stats) {
  if (stats.measured_runs + stats.interpolated_runs == 0) return "";
  const InstalledTimings* const installed = UsedInstalledTimings(target);
  const bool only_installed = installed != nullptr && stats.measured_runs == 0;
  return only_installed ? installed->device().versions : target.engines().Versions();
}

std::string PlaceholderEnginesText(const PlanTarget& target) {
  const absl::Status& unlisted = target.unlisted;
  const std::string reason =
      absl::IsFailedPrecondition(unlisted)
          ? std::string(unlisted.message())
          : absl::StrCat("there is no cuDNN here to list those of ", target.description.name, " (",
                         unlisted.message(), ")");
  return absl::StrCat("placeholders, one for each step, without workspace: ", reason);
}

std::string PlaceholderEngines(const PlanTarget& target, const PlanningStats& stats) {
  const bool are_known = target.unlisted.ok() || stats.measured_runs == stats.runs;
  return are_known ? "" : PlaceholderEnginesText(target);
}

void PrintOtherVersions(const PlanTarget& target) {
  if (target.other_versions.empty()) return;
  absl::FPrintF(stderr,
                "neap: kernels of %s were measured with %s, but this machine has %s, whose engines "
                "are used for kernels that were not measured\n",
                target.description.name, target.engines().Versions(), target.other_versions);
}

}  // namespace neap::apps
