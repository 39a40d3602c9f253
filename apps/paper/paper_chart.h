// The pictures of a report as one standalone SVG image, one below the other.
//
//   RETURN_IF_ERROR(WriteTextFile("sn-fig10.svg", ChartsSvg("sn-fig10", report.charts)));
#pragma once

#include <string>
#include <vector>

#include "apps/paper/paper_report.h"

namespace neap::apps {

// `charts` is not empty. Places and values that a series lacks are left out.
std::string ChartsSvg(const std::string& heading, const std::vector<PaperChart>& charts);

}  // namespace neap::apps
