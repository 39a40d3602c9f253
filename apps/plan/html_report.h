// A plan as a page for the browser: memory step by step, the streams' timeline, every tensor.
//
// The page is one file that needs nothing else, so that it can be mailed: its style and script
// (apps/report/, put together at build time by cmake/report_page.cmake) are in it, and so is the
// plan, as one JSON object.
//
//   RETURN_IF_ERROR(WriteTextFile("plan.html", HtmlReport(plan, timeline, {})));
#pragma once

#include <string>

#include "apps/plan/report_json.h"

namespace neap::apps {

// As ReportJson().
std::string HtmlReport(const Plan& plan, const Timeline& timeline, const ReportOptions& options);

}  // namespace neap::apps
