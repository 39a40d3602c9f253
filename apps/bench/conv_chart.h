// The speedups of `neap bench conv` as a bar chart, a standalone SVG image. It has a group of bars
// for all kernels together and one for each kernel, with one bar per limit; its height grows with
// the number of kernels.
//
//   RETURN_IF_ERROR(WriteTextFile("speedups.svg", SpeedupChart(report)));
#pragma once

#include <string>

#include "apps/bench/conv_report.h"

namespace neap::apps {

std::string SpeedupChart(const ConvBenchReport& report);

}  // namespace neap::apps
