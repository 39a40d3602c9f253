// The speedups of `neap bench conv` as a bar chart: a picture by itself (SVG), to be looked at in a
// browser or put into a page. A group of bars for all kernels together and for each kernel, a bar
// for each limit; as tall as there are kernels.
//
//   RETURN_IF_ERROR(WriteTextFile("speedups.svg", SpeedupChart(report)));
#pragma once

#include <string>

#include "apps/bench/conv_report.h"

namespace neap::apps {

std::string SpeedupChart(const ConvBenchReport& report);

}  // namespace neap::apps
