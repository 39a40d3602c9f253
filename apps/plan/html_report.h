// A plan as a page for the browser: memory step by step, the streams' timeline, every tensor.
//
// The page is one self-contained file: it holds its style and script (apps/plan/report/, assembled
// at build time by cmake/report_page.cmake) and the plan, as one JSON object.
//
//   RETURN_IF_ERROR(WriteTextFile("plan.html", HtmlReport(plan, timeline, {})));
#pragma once

#include <string>

#include "apps/plan/report_json.h"

namespace neap::apps {

// Takes the same arguments as ReportJson().
std::string HtmlReport(const Plan& plan, const Timeline& timeline, const ReportOptions& options);

}  // namespace neap::apps
