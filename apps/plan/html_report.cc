#include "apps/plan/html_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "apps/plan/report_page.h"  // made by cmake/report_page.cmake

namespace neap::apps {

std::string HtmlReport(const Plan& plan, const Timeline& timeline, const ReportOptions& options) {
  const Json json = ReportJson(plan, timeline, options);
  std::string data = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  // A name in the plan must not end the element that the data is in.
  absl::StrReplaceAll({{"<", "\\u003c"}}, &data);
  return absl::StrCat(kPageBeforeData, data, kPageAfterData);
}

}  // namespace neap::apps
