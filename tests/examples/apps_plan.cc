// The examples of the headers under apps/plan/ and apps/profile/, compiled but not run.
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "apps/cli/output.h"
#include "apps/plan/html_report.h"
#include "apps/plan/report_json.h"
#include "apps/plan/speed_curve.h"
#include "apps/plan/tensor_alternatives.h"
#include "apps/profile/engine_list.h"
#include "apps/profile/profiled_net.h"
#include "apps/profile/profiling_devices.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/device/device.h"
#include "neap/memory/engines/engine_table.h"

namespace neap::apps {

absl::Status HtmlReportExample(const Plan& plan, const Timeline& timeline) {
  RETURN_IF_ERROR(WriteTextFile("plan.html", HtmlReport(plan, timeline, {})));
  return absl::OkStatus();
}

void ReportJsonExample(const Plan& plan, const Timeline& timeline) {
  Json json = ReportJson(plan, timeline, {.accounting = "exact"});
  json["runs"][3]["live_bytes"];
  json["tensors"][7]["story"];
}

absl::Status SpeedCurveExample(const Program& program, const PlannerOptions& options,
                               const PlanTarget& target) {
  ASSIGN_OR_RETURN(const SpeedCurve curve,
                   PlanSpeedCurve(program, options, {"chen", "auto"}, target));
  curve.policies[1].points[0]->images_per_second;
  return absl::OkStatus();
}

absl::Status TensorAlternativesExample(const Program& program, const PlanResult& result,
                                       const KernelOptions& kernels,
                                       const DeviceDescription& device, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(EngineTable engines,
                   EngineTable::List(program, kernels, /*strict=*/false, device, catalog));
  ASSIGN_OR_RETURN(const RebuildPrices prices, engines.PriceReruns(program, catalog));
  FindAlternatives(program, result.costs, prices, /*may_move=*/true).front().move_us;
  return absl::OkStatus();
}

absl::Status EngineListExample(ProfileDatabase& database, const std::unique_ptr<Device>& device,
                               const std::vector<Program>& programs) {
  EngineList list = {.net = "lenet", .device = database.device(), .database = database.path()};
  ASSIGN_OR_RETURN(list.kernels,
                   ListKernels(programs, device->description(), {&device->backend(), &database}));
  Print(ToText(list));
  return absl::OkStatus();
}

absl::Status ProfiledNetExample(const Graph& net, const Optimizer& optimizer,
                                const ProfileOptions& options, Device& device,
                                ProfileDatabase& database, const StepSignature& kernel) {
  const DeviceDescription& description = device.description();
  const ProfiledNet profiled = {.graph = net, .optimizer = optimizer};
  ASSIGN_OR_RETURN(const std::vector<Program> programs, ProgramsOf(profiled, description));
  MeasuringTime seconds(programs, options, device, database);
  seconds.Of(kernel);
  return absl::OkStatus();
}

absl::Status ProfilingDevicesExample(const ProfiledNet& profiled, const ProfileOptions& options,
                                     const ProfilingDevices::OnProgress& on_progress) {
  ASSIGN_OR_RETURN(ProfilingDevices devices,
                   ProfilingDevices::Open({"cuda:0", "cuda:1"}, {}, /*database=*/""));
  ASSIGN_OR_RETURN(const std::vector<Program> programs,
                   ProgramsOf(profiled, devices.description()));
  ASSIGN_OR_RETURN(const ProfileWork work, devices.Measure(programs, options, on_progress));
  return absl::OkStatus();
}

}  // namespace neap::apps
