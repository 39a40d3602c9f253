// What `neap bench conv` has measured, as a table, as JSON and as CSV.
#pragma once

#include <string>

#include "apps/bench/conv_comparison.h"
#include "apps/cli/output.h"

namespace neap::apps {

// What was measured, and on what.
struct ConvBenchSubject {
  std::string set;     // "alexnet, batch 256"
  std::string format;  // "tf32 nchw"
  std::string divisions;
  std::string device;
  std::string versions;
  bool executed = true;  // else times are predictions alone
};

// First steps are measured, then kernels are timed; after Ctrl-C not all of either.
struct ConvBenchReport {
  ConvBenchSubject subject;
  ConvBenchResult result = {};
  int64_t steps = 0, steps_done = 0;  // of measuring
};

// "alexnet, batch 256, tf32 nchw, parts power-of-two, on NVIDIA H200", and ", predicted" where
// nothing was executed.
std::string Title(const ConvBenchSubject& subject);
// "3.42x"; "-" where something does not fit.
std::string SpeedupText(const std::optional<double>& speedup);

std::string ToText(const ConvBenchReport& report);
Json ToJson(const ConvBenchReport& report);
// A line for every kernel and limit; empty fields where nothing fits.
std::string ToCsv(const ConvBenchResult& result);

}  // namespace neap::apps
