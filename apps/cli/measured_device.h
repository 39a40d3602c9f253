// A device as a profile database describes it, for commands that choose kernels by measured times
// and need neither the device nor its libraries.
//
//   ASSIGN_OR_RETURN(const MeasuredDevice h200, OpenMeasuredDevice("h200.db", "h200"));
//   h200.device.versions;  // "cuDNN 9.19.0, cuBLASLt 13.1.0"
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/kernel_flags.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/profile/installed_timings.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct MeasuredDevice {
  ProfiledDevice device;
  std::shared_ptr<const KernelTimings> timings;
  std::unique_ptr<EngineCatalog> catalog;  // the engines that were measured
};

// `database` is a path, or empty for the default; the catalog has those of its engines that
// `engines` allows. `device` is a name that --device takes or one in
// the database, or empty for the device measured last. If it was measured with several versions of
// its libraries, the installed versions are chosen, otherwise those measured last.
// Errors: NOT_FOUND naming the devices that the database has; those of ProfileDatabase::OpenToRead
// and OpenPlanTarget().
absl::StatusOr<MeasuredDevice> OpenMeasuredDevice(const std::string& database,
                                                  const std::string& device,
                                                  const EngineOptions& engines = {},
                                                  ProfiledTimings::OnError on_unread = PrintUnread);

// OpenPlanTarget() with the measured times: those of the database, and where it has none those that
// come with the library. A device of which only a description exists gets the engines of
// layers/catalog/measured_catalog.h, with versions chosen as above. `cpu_kernels` is
// that of DeviceChoices. Errors: those of OpenPlanTarget() and KernelFlags::Options().
absl::StatusOr<PlanTarget> OpenPlanTargetBy(const KernelFlags& kernels, const std::string& device,
                                            const std::string& peer,
                                            ProfiledTimings::OnError on_unread = PrintUnread,
                                            std::vector<CustomKernel> cpu_kernels = {});

// The times that come with the library, if plans for the target have used any so far; otherwise
// null. *Ownership*: the target's.
const InstalledTimings* UsedInstalledTimings(const PlanTarget& target);

// The library versions that a plan's times were measured with; empty if none was measured.
std::string MeasuredWith(const PlanTarget& target, const PlanningStats& stats);
// Describes the placeholder engines of a device whose engines are not known here, and says why
// (PlanTarget::unlisted).
std::string PlaceholderEnginesText(const PlanTarget& target);
// The same for a plan; empty if all of its engines are known.
std::string PlaceholderEngines(const PlanTarget& target, const PlanningStats& stats);
// Warns on stderr if the measured times of a plan are of other versions than the installed library.
void PrintOtherVersions(const PlanTarget& target);

}  // namespace neap::apps
