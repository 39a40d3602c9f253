// The examples of the headers under memory/measuring/, compiled but not run.
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/measuring/kernel_demand.h"
#include "neap/memory/measuring/measure_kernels.h"
#include "neap/memory/measuring/measured_session.h"

namespace neap {

// memory/measuring/kernel_demand.h
absl::Status DemandsExample(const Program& program, const PlanResult& result,
                            const std::shared_ptr<ProfiledTimings>& timings,
                            const DeviceDescription& device, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(std::vector<KernelDemand> demands,
                   DemandsOf(program, result.plan, {.timings = timings}, device, catalog));
  demands.front().signature;  // of a part of the batch, if its engine is for a part
  return absl::OkStatus();
}

// memory/measuring/measure_kernels.h
absl::Status MeasureExample(LowerWith lower, const PlannerOptions& planning, Device& device,
                            ProfileDatabase& database) {
  MeasuringOptions options = {.seconds = 10};
  ASSIGN_OR_RETURN(
      MeasuringReport report,
      MeasureKernels(lower, planning, {.budget_bytes = 12 * kGiB}, device, database, options));
  report.measured;  // engines
  return absl::OkStatus();
}

// memory/measuring/measured_session.h
absl::Status MeasuredSessionExample(const Graph& net, const std::unique_ptr<Device>& device) {
  // On a GPU at most 10 s, into the default database; on a CPU this is CreateSession().
  ASSIGN_OR_RETURN(Session session,
                   CreateMeasuredSession(net, *device, {.budget_bytes = 12 * kGiB}));
  return absl::OkStatus();
}

// docs/own-network.md
absl::Status SessionMeasuringExample(const Graph& net, const std::unique_ptr<Device>& device) {
  neap::SessionMeasuring measuring = {
      .seconds = 60, .database = "times.db"};  // 0 seconds: only known times are used
  measuring.on_progress = [](const neap::MeasuringReport& report) {
    return report.measured < 100;
  };  // false: enough
  return CreateMeasuredSession(net, *device, {}, {}, measuring).status();
}

}  // namespace neap
