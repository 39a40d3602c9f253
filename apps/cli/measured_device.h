// A device as a profile database has it: for commands that choose by measured times, and need
// neither the device nor its libraries.
//
//   ASSIGN_OR_RETURN(const MeasuredDevice h200, OpenMeasuredDevice("h200.db", "h200"));
//   h200.device.versions;  // "cuDNN 9.19.0, cuBLASLt 13.1.0"
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/kernel_flags.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct MeasuredDevice {
  ProfiledDevice device;
  std::shared_ptr<const KernelTimings> timings;
  std::unique_ptr<EngineCatalog> catalog;  // the engines that were measured
};

// `database`: empty for the default. `device`: as --device takes it, or the name that the database
// has; empty for the one that was measured last. Of several versions of its libraries, however it
// is named, those that are here, else those that were measured last.
// Errors: NOT_FOUND naming the devices that the database has; those of ProfileDatabase::OpenToRead
// and OpenPlanTarget().
absl::StatusOr<MeasuredDevice> OpenMeasuredDevice(const std::string& database,
                                                  const std::string& device,
                                                  ProfiledTimings::OnError on_unread = PrintUnread);

// OpenPlanTarget(), to plan by what was measured. A device that is known by description alone has
// the engines of layers/catalog/measured_catalog.h, of versions as above. Errors: its, and those of
// KernelFlags::Options.
absl::StatusOr<PlanTarget> OpenPlanTargetBy(const KernelFlags& kernels, const std::string& device,
                                            const std::string& peer,
                                            ProfiledTimings::OnError on_unread = PrintUnread);

// The versions that a plan's times were measured with; empty where none was.
std::string MeasuredWith(const PlanTarget& target, const PlanningStats& stats);
// Of a device whose engines are not known here (PlanTarget::knows_engines), how they are made up.
std::string MadeUpText(const std::string& device);
// The same of a plan; empty where all of its engines are known.
std::string MadeUpEngines(const PlanTarget& target, const PlanningStats& stats);
// Says on stderr of a plan with measured times that they are not those of the library that is here,
// if so.
void PrintOtherVersions(const PlanTarget& target);

}  // namespace neap::apps
