// The measurements of `neap bench conv`, or predictions from a database, for commands that show
// them in their own way (apps/paper/).
//
//   ConvBenchRequest request = {.net = {.name = "alexnet"}, .plan_only = true};
//   request.measuring.database = "h200.db";
//   ASSIGN_OR_RETURN(const ConvBenchReport report, RunConvBench(request));
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/bench/conv_comparison.h"
#include "apps/bench/conv_report.h"
#include "apps/cli/measuring_flags.h"
#include "apps/cli/net_flags.h"
#include "neap/core/base/units.h"

namespace neap::apps {

struct ConvBenchRequest {
  // A network whose convolutions are taken, "deepbench", or a file of shapes that ends in .csv.
  NetFlags net = {.name = "alexnet", .options = {}};
  std::vector<ConvKernel> kernels = {};  // instead of the set, of which only the name is shown
  int64_t batch_factor = 1;
  ConvBenchOptions bench = {.limits_bytes = {8 * kMiB, 64 * kMiB, 512 * kMiB}};
  MeasuringFlags measuring = {};
  bool forward_only = false;
  bool plan_only = false;  // only by the times in the database
};

// After Ctrl-C the report holds what was done. Errors: BadUsage() for an unknown set; those of
// reading a list, of measuring, and of ConvBench::Run(); NOT_FOUND if a database lacks times.
absl::StatusOr<ConvBenchReport> RunConvBench(ConvBenchRequest request);

}  // namespace neap::apps
