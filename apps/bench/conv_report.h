// The results of `neap bench conv` as a table, as JSON and as CSV.
#pragma once

#include <string>

#include "apps/bench/conv_comparison.h"
#include "apps/cli/output.h"

namespace neap::apps {

// The set of convolutions that was measured, and the device.
struct ConvBenchSubject {
  std::string set;     // "alexnet, batch 256"
  std::string format;  // "tf32 nchw"
  std::string divisions;
  std::string device;
  std::string versions;
  bool executed = true;  // false: all times are predictions
};

// Engines of all steps are measured first, then kernels are timed; Ctrl-C may cut either short.
struct ConvBenchReport {
  ConvBenchSubject subject;
  ConvBenchResult result = {};
  int64_t steps = 0, steps_done = 0;  // of the measuring
};

// "alexnet, batch 256, tf32 nchw, parts power-of-two, on NVIDIA H200", and ", predicted" where
// nothing was executed.
std::string Title(const ConvBenchSubject& subject);
// "3.42x"; "-" without a speedup, if one side does not fit.
std::string SpeedupText(const std::optional<double>& speedup);

// The parts that a text has besides the table.
struct ConvDetails {
  bool fronts = false;    // ConvTimes::front
  bool segments = false;  // WorkspaceComparison::segments
};
std::string ToText(const ConvBenchReport& report, const ConvDetails& details = {});
Json ToJson(const ConvBenchReport& report);
// One line per kernel and limit; fields are empty if nothing fits.
std::string ToCsv(const ConvBenchResult& result);

}  // namespace neap::apps
