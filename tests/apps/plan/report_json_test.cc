#include "apps/plan/report_json.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/plan/html_report.h"
#include "tests/apps/command.h"
#include "tests/plan_script.h"

namespace neap::testing {
namespace {

apps::Json JsonOf(const Plan& plan, const apps::ReportOptions& options = {}) {
  const Timeline timeline = PredictTimeline(plan, {.compute_seconds = SecondsEach(plan, 1, 1),
                                                   .d2h_bytes_per_second = 1024,
                                                   .h2d_bytes_per_second = 2048});
  return apps::ReportJson(plan, timeline, options);
}

TEST_CASE("the report has every run, transfer and stall with its times") {
  const apps::Json json = JsonOf(PlanFromScript(kTransferPlan));
  CHECK(json.at("plan").at("policy") == "by hand");
  CHECK(json.at("runs").size() == 5);
  CHECK(json.at("runs").at(2).at("begin_us") == 3e6);  // f3 waits for the offload
  CHECK(json.at("runs").at(2).at("host_bytes") == 2048);
  REQUIRE(json.at("transfers").size() == 2);
  CHECK(json.at("transfers").at(1).at("op") == "prefetch");
  CHECK(json.at("transfers").at(1).at("end_us") == 6e6);
  REQUIRE(json.at("stalls").size() == 2);
  CHECK(json.at("stalls").at(0).at("tensor") == 2);  // a
  CHECK(json.at("tensors").at(2).at("fates") == apps::Json{"offloaded"});
  CHECK(json.at("tensors").at(2).at("resident") == apps::Json{{0, 2}, {4, 5}});
  CHECK(json.at("timeline").at("total_us") == 7e6);
}

//   bytes   y   y+z  z+g  [y+z+g, y+g]      the recomputation counts for the step after it
TEST_CASE("a comparison counts recomputation for the step that needs the result") {
  const Plan plan = PlanFromScript(kRecomputePlan);
  const apps::Json line = JsonOf(plan, {.compared = {plan}}).at("comparison").at(0);
  CHECK(line.at("live_bytes").size() == plan.steps.size());
  CHECK(line.at("live_bytes") == apps::Json{2056, 4104, 4104, 4104});
  CHECK(line.at("live_tensors") == apps::Json{2, 3, 3, 3});
}

TEST_CASE("a tensor has the price of moving and of rebuilding it, or no alternatives") {
  const Plan plan = PlanFromScript(kTransferPlan);
  const apps::Json tensors =
      JsonOf(plan, {.alternatives = {{.tensor = TensorId(1), .move_us = 3, .rebuild_us = 2},
                                     {.tensor = TensorId(2), .move_us = 5}}})
          .at("tensors");
  CHECK(tensors.at(0).at("alternatives").is_null());
  CHECK(tensors.at(1).at("alternatives") == apps::Json{{"move_us", 3.0}, {"rebuild_us", 2.0}});
  CHECK(tensors.at(2).at("alternatives").at("move_us") == 5);
  CHECK(tensors.at(2).at("alternatives").at("rebuild_us").is_null());
}

TEST_CASE("the page loads nothing from other files or servers") {
  const Plan plan = PlanFromScript(kPlainPlan);
  const std::string page = apps::HtmlReport(
      plan, PredictTimeline(plan, {.compute_seconds = SecondsEach(plan, 0, 0)}), {});
  CHECK(page.find("@DATA@") == std::string::npos);
  for (const char* reference : {" src=", "href=", "@import", "url(\"", "https:"}) {
    CAPTURE(reference);
    CHECK(page.find(reference) == std::string::npos);
  }
}

TEST_CASE("--report with the paper's accounting compares the policies with the paper's figures") {
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.html");
  CHECK(RunNeap({"plan", "alexnet", "--batch", "200", "--policy", "liveness", "--accounting",
                 "paper", "--device", "h200", "--report", file})
            .exit_code == 0);
  const std::string page = ReadText(file);
  const std::string open = "id=\"report-data\">";
  const size_t begin = page.find(open) + open.size();
  const nlohmann::json json =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  std::map<std::string, std::pair<int64_t, ptrdiff_t>> peaks;  // by policy: bytes and step
  for (const nlohmann::json& line : json.at("comparison")) {
    const std::vector<int64_t> bytes = line.at("live_bytes");
    CHECK(bytes.size() == 46);
    const auto peak = std::max_element(bytes.begin(), bytes.end());
    peaks[line.at("policy")] = {*peak, peak - bytes.begin() + 1};
    CHECK(line.at("over_budget") == false);  // none was given
    if (line.at("policy") == "liveness") CHECK(line.at("live_tensors").at(31) == 17);
  }
  CHECK(peaks.at("liveness") == std::pair<int64_t, ptrdiff_t>{1561702400, 32});
  for (const auto& [name, mib, step] : {std::tuple{"offload", 1132.056, 39},
                                        {"recompute-speed", 993.018, 43},
                                        {"recompute-memory", 886.230, 44},
                                        {"cost-aware", 886.230, 44}}) {
    const std::string policy = name;
    CAPTURE(policy);
    const auto [bytes, peak_step] = peaks.at(policy);
    CHECK(static_cast<double>(bytes) / (1 << 20) == doctest::Approx(mib).epsilon(1e-6));
    CHECK(peak_step == step);
  }
}

}  // namespace
}  // namespace neap::testing
