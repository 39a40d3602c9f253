#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/plan/html_report.h"
#include "tests/apps/command.h"
#include "tests/apps/plan/browser.h"
#include "tests/plan_script.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

constexpr char kNoBrowser[] =
    "NO BROWSER: the page of neap plan --report was not looked at; install chromium "
    "(scripts/setup.sh --tests), or name a browser in NEAP_BROWSER";

std::string PageOf(const Plan& plan, const apps::ReportOptions& options) {
  const TimelineCosts costs = {.compute_seconds = SecondsEach(plan, 1e-3, 2e-3),
                               .d2h_bytes_per_second = 1e6,
                               .h2d_bytes_per_second = 1e6};
  return apps::HtmlReport(plan, PredictTimeline(plan, costs), options);
}

std::optional<std::string> Load(const Plan& plan, const apps::ReportOptions& options = {}) {
  const ScratchDirectory directory;
  WriteText(directory.File("plan.html"), PageOf(plan, options));
  return LoadPage(directory.File("plan.html"));
}

Strings Numbers(const Json& list, const char* key) {
  Strings numbers;
  for (const Json& entry : list) numbers.push_back(entry.at(key).dump());
  return numbers;
}

TEST_CASE("the browser shows the numbers of the plan") {
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.html");
  const Json plan =
      RunForJson({"plan", "resnet-cifar", "--device", "h200", "--budget", "200%", "--per-step",
                  "--report", file, "--plan-out", directory.File("plan.json")})
          .at(0);
  const std::optional<std::string> page = LoadPage(file);
  if (!page) return SkipCase(kNoBrowser);
  REQUIRE(Attributes(*page, "data-ready") == Strings{"yes"});
  for (const auto& [attribute, key] : {std::pair{"data-peak-bytes", "peak_bytes"},
                                       {"data-budget-bytes", "budget_bytes"},
                                       {"data-runs", "steps"}}) {
    CHECK(Attributes(*page, attribute) == Strings{plan.at(key).dump()});
  }
  CHECK(Attributes(*page, "data-live-bytes") == Numbers(plan.at("per_step"), "live_bytes"));
  CHECK(Attributes(*page, "data-live-tensors") == Numbers(plan.at("per_step"), "live_tensors"));
  const Plan written = Plan::FromJson(ReadText(directory.File("plan.json"))).value();
  CHECK(Attributes(*page, "data-tensors") == Strings{std::to_string(written.tensors.size())});
  Strings names = Attributes(*page, "data-tensor");
  Strings expected;
  for (const PlanTensor& tensor : written.tensors) expected.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  std::sort(expected.begin(), expected.end());
  CHECK(names == expected);
}

TEST_CASE("the browser shows offloaded and recomputed tensors") {
  const std::optional<std::string> moved = Load(PlanFromScript(kTransferPlan));
  if (!moved) return SkipCase(kNoBrowser);
  CHECK(Attributes(*moved, "data-host-peak-bytes") == Strings{"2048"});
  CHECK(Attributes(*moved, "data-host-bytes") == Strings{"0", "2048", "2048", "2048", "0"});
  CHECK(Attributes(*moved, "data-busiest-step") == Strings{"2"});
  const Strings fates = Attributes(*moved, "data-fates");
  CHECK(std::count(fates.begin(), fates.end(), "offloaded") == 1);
  CHECK(moved->find("offloaded after f1 forward, back before f2 backward_params") !=
        std::string::npos);

  const std::string rebuilt = Load(PlanFromScript(kRecomputePlan)).value();
  CHECK(Attributes(rebuilt, "data-recompute") ==
        Strings{"false", "false", "false", "true", "false"});
  CHECK(rebuilt.find("rebuilt once by bn forward from x, s") != std::string::npos);
}

TEST_CASE("the browser shows what moving and rebuilding a tensor would cost") {
  const std::optional<std::string> page =
      Load(PlanFromScript(kTransferPlan),
           {.alternatives = {{.tensor = TensorId(1), .move_us = 3000, .rebuild_us = 2000},
                             {.tensor = TensorId(2), .move_us = 5000}}});
  if (!page) return SkipCase(kNoBrowser);
  CHECK(Attributes(*page, "data-ready") == Strings{"yes"});
  CHECK(Attributes(*page, "data-move-us").size() == 2);
  for (const char* text :
       {"moving 3.000 ms", "rebuilding 2.000 ms", "moving 5.000 ms", "cannot be rebuilt"})
    CHECK(page->find(text) != std::string::npos);
  CHECK(Load(PlanFromScript(kTransferPlan)).value().find(">Alternatives</th>") ==
        std::string::npos);
}

TEST_CASE("plans of the same program are lines of one chart") {
  Plan other = PlanFromScript(kTransferPlan);
  other.policy = "another";
  const std::optional<std::string> page =
      Load(PlanFromScript(kTransferPlan), {.compared = {PlanFromScript(kTransferPlan), other}});
  if (!page) return SkipCase(kNoBrowser);
  CHECK(Attributes(*page, "data-policy") == Strings{"by hand", "another", "by hand", "another"});
}

TEST_CASE("the browser draws the curve of every policy, with a dot for each budget that it fits") {
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.html");
  const Json curve = RunForJson({"plan", "lenet", "--batch", "512", "--device", "h200",
                                 "--database", "none", "--curve", "--report", file})
                         .at(0);
  const std::optional<std::string> page = LoadPage(file);
  if (!page) return SkipCase(kNoBrowser);
  CHECK(Attributes(*page, "data-ready") == Strings{"yes"});
  Strings policies, dots;
  for (const Json& line : curve.at("policies")) {
    policies.push_back(line.at("policy"));
    dots.push_back(std::to_string(
        std::count_if(line.at("points").begin(), line.at("points").end(),
                      [](const Json& point) { return !point.at("images_per_second").is_null(); })));
  }
  CHECK(Attributes(*page, "data-curve") == policies);
  CHECK(Attributes(*page, "data-points") == dots);
  CHECK(page->find(">budget, GiB</text>") != std::string::npos);
  CHECK(page->find(">predicted images/s</text>") != std::string::npos);
  CHECK(Attributes(Load(PlanFromScript(kPlainPlan)).value(), "data-curve").empty());
}

// Lists what is wider than its place, with everything unfolded.
constexpr char kFindOverflow[] = R"(<script>
for (const folded of document.querySelectorAll("details")) folded.open = true;
document.body.dataset.tooWide = [...document.querySelectorAll("html, main, .card, .scroll")]
  .filter((part) => part.scrollWidth > part.clientWidth)
  .map((part) => `${part.tagName} ${part.className} ${part.scrollWidth}`).join();
</script>)";

TEST_CASE("nothing runs out of the page on the right, in wide windows and narrow ones") {
  Plan plan = PlanFromScript(kTransferPlan);
  for (PlanTensor& tensor : plan.tensors)
    tensor.name = "features.denseblock3.denselayer17.norm2.activation." + tensor.name;
  for (PlanStep& step : plan.steps)
    step.layer = "features.denseblock3.denselayer17.conv2." + step.layer;
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.html");
  WriteText(
      file,
      PageOf(plan,
             {.alternatives = {{.tensor = TensorId(1), .move_us = 123456, .rebuild_us = 234567},
                               {.tensor = TensorId(2), .move_us = 345678}}}) +
          kFindOverflow);
  for (const int width : {1920, 1400, 1361, 1360, 1000, 700}) {
    CAPTURE(width);
    const std::optional<std::string> page = LoadPage(file, width);
    if (!page) return SkipCase(kNoBrowser);
    CHECK(Attributes(*page, "data-ready") == Strings{"yes"});
    CHECK(Attributes(*page, "data-too-wide") == Strings{""});
  }
}

TEST_CASE("names in a plan are shown as text, never as HTML, and an empty plan has a page") {
  Plan plan = PlanFromScript(kPlainPlan);
  plan.net = "</script><script>document.body.dataset.ready='stolen'</script>";
  plan.steps[0].layer = "<!--<script>";
  plan.tensors[0].name = "\"&<b>\xff";
  const std::optional<std::string> page = Load(plan);
  if (!page) return SkipCase(kNoBrowser);
  CHECK(Attributes(*page, "data-ready") == Strings{"yes"});
  CHECK(Attributes(*page, "data-runs") == Strings{"4"});
  CHECK(Attributes(Load(Plan{}).value(), "data-ready") == Strings{"yes"});
}

}  // namespace
}  // namespace neap::testing
