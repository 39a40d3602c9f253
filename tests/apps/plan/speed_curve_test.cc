#include "apps/plan/speed_curve.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "apps/plan/curve_report.h"
#include "neap/core/base/units.h"
#include "neap/memory/policies/policies.h"
#include "tests/apps/command.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Args = std::vector<std::string>;
using Json = nlohmann::json;

const Args kLenet = {"plan", "lenet", "--batch", "512", "--device", "h200", "--database", "none"};

TEST_CASE("budgets rise by the same ratio in sizes of five binary digits") {
  const std::vector<int64_t> ladder = apps::BudgetLadder(kGiB, 8 * kGiB, 30 * kGiB, 4);
  CHECK(ladder == std::vector<int64_t>{kGiB, 2 * kGiB, 4 * kGiB, 8 * kGiB, 30 * kGiB});
  const int64_t least = 33 * kMiB + 1;
  const std::vector<int64_t> sizes = apps::BudgetLadder(least, 500 * kMiB, 700 * kMiB, 11);
  CHECK(sizes.size() == 12);
  CHECK(sizes.front() == 34 * kMiB);
  CHECK(sizes.back() == 704 * kMiB);
  CHECK(std::is_sorted(sizes.begin(), sizes.end()));
  for (int64_t size : sizes) {
    while (size % 2 == 0) size /= 2;
    CHECK(size < 32);
  }
}

TEST_CASE("budgets that are rounded to the same size are one budget") {
  CHECK(apps::BudgetLadder(1000 * kKiB, 1010 * kKiB, 1020 * kKiB, 11) ==
        std::vector<int64_t>{1024 * kKiB});
  CHECK(apps::BudgetLadder(1, 1, 1, 11) == std::vector<int64_t>{kKiB});
  CHECK(apps::BudgetLadder(8 * kKiB, 4 * kKiB, 4 * kKiB, 11) == std::vector<int64_t>{8 * kKiB});
}

TEST_CASE("the table has the budgets in one unit, and a line where a policy does not fit") {
  const apps::SpeedPoint fast = {.images_per_second = 1234.56};
  const apps::SpeedPoint slow = {.images_per_second = 12.345};
  const apps::SpeedCurve curve = {
      .device = "a GPU",
      .natural_peak_bytes = 3 * kGiB / 2,
      .budgets = {68 * kMiB, kGiB, 17 * kGiB / 16},
      .policies = {{.policy = "chen", .points = {std::nullopt, slow, fast}},
                   {.policy = "auto", .points = {slow, fast, fast}}},
      .measured_with = "cuDNN 9"};
  CHECK(apps::ToText(curve, {.name = "net", .batch = 7}) ==
        R"(predicted images/s of net at batch 7, fp32 nchw, on a GPU
  natural peak 1.500 GiB
  kernel times measured with cuDNN 9
  budget, MiB           68    1024    1088
  chen                   -   12.35    1235
  auto               12.35    1235    1235
)");
}

TEST_CASE("--curve prints the speed of every policy in every budget") {
  const Args command = Joined(kLenet, {"--curve"});
  const Json curve = RunForJson(command).at(0);
  const std::vector<std::string> lines = absl::StrSplit(RunNeap(command).out, '\n');
  const size_t policies = curve.at("policies").size();
  REQUIRE(policies == Policies().size());
  REQUIRE(lines.size() >= 3 + policies);
  CHECK(lines[0] == "predicted images/s of lenet at batch 512, fp32 nchw, on NVIDIA H200");
  CHECK(lines[1].starts_with("  natural peak "));
  const size_t header = lines.size() - policies - 2;  // after a notice about engines, if any
  CHECK(lines[header].starts_with("  budget, MiB "));
  for (size_t i = 0; i < policies; ++i) {
    const Json& policy = curve.at("policies").at(i);
    const std::vector<std::string> cells =
        absl::StrSplit(lines[header + 1 + i], ' ', absl::SkipEmpty());
    CAPTURE(lines[header + 1 + i]);
    REQUIRE(cells.size() == 1 + policy.at("points").size());
    CHECK(cells[0] == policy.at("policy"));
    for (size_t k = 1; k < cells.size(); ++k) {
      const Json& speed = policy.at("points").at(k - 1).at("images_per_second");
      double shown = 0;
      CHECK(absl::SimpleAtod(cells[k], &shown) == !speed.is_null());
      if (speed.is_null())
        CHECK(cells[k] == "-");
      else
        CHECK(shown == doctest::Approx(speed.get<double>()).epsilon(0.001));
    }
  }
}

TEST_CASE("the points of --curve are the plans of neap plan in the same budgets") {
  const Json curve = RunForJson(Joined(kLenet, {"--curve", "--policy", "superneurons"})).at(0);
  CHECK(curve.at("net") == "lenet");
  CHECK(curve.at("engines_known") == KnowsEnginesOfH200());
  REQUIRE(curve.at("policies").size() == 1);
  const Json& line = curve.at("policies").at(0);
  CHECK(line.at("policy") == "superneurons");
  const Json& points = line.at("points");
  REQUIRE(points.size() == curve.at("budgets_bytes").size());
  double slower = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const Json& point = points.at(i);
    CAPTURE(point.dump());
    CHECK(point.at("budget_bytes") == curve.at("budgets_bytes").at(i));
    CHECK(point.at("peak_bytes") <= point.at("budget_bytes"));
    CHECK(point.at("images_per_second") >= slower);
    slower = point.at("images_per_second");
    const std::string budget = point.at("budget_bytes").dump();
    const Json plan =
        RunForJson(Joined(kLenet, {"--policy", "superneurons", "--budget", budget})).at(0);
    CHECK(plan.at("minimum_budget_bytes") == line.at("minimum_budget_bytes"));
    for (const char* key : {"peak_bytes", "predicted_ms", "batch_copy_ms"})
      CHECK(plan.at(key) == point.at(key));
  }
  CHECK(points.front().at("images_per_second") < points.back().at("images_per_second"));
}

TEST_CASE("a policy has no speed in the budgets below its minimum") {
  const Json curve = RunForJson(Joined(kLenet, {"--curve"})).at(0);
  REQUIRE(curve.at("policies").size() == Policies().size());
  bool any_refused = false;
  for (const Json& line : curve.at("policies")) {
    CAPTURE(line.at("policy"));
    for (const Json& point : line.at("points")) {
      const bool fits = point.at("budget_bytes") >= line.at("minimum_budget_bytes");
      any_refused |= !fits;
      for (const char* key : {"peak_bytes", "predicted_ms", "batch_copy_ms", "images_per_second"})
        CHECK(point.at(key).is_null() == !fits);
    }
    CHECK(line.at("points").back().at("images_per_second") > 0);
  }
  CHECK(any_refused);
}

TEST_CASE("a host budget leaves out what needs more pinned memory") {
  const Json curve =
      RunForJson(Joined(kLenet, {"--curve", "--policy", "tensor-cache", "--host-budget", "1KiB"}))
          .at(0);
  const Json& points = curve.at("policies").at(0).at("points");
  CHECK(points.front().at("images_per_second").is_null());
  CHECK(points.back().at("images_per_second") > 0);
}

TEST_CASE("--curve refuses flags of a single plan in one line") {
  for (const Args& flags : {Args{"--budget", "60%"},
                            {"--per-step"},
                            {"--plan-out", "plan.json"},
                            {"--trace-out", "trace.json"},
                            {"--accounting", "paper"}}) {
    CheckRefused(Joined({"plan", "lenet", "--curve"}, flags), 2, {"--curve", flags.front()});
  }
}

}  // namespace
}  // namespace neap::testing
