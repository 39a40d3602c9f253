#include "apps/plan/speed_curve.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/plan/curve_report.h"
#include "neap/core/base/units.h"
#include "neap/memory/policies/policies.h"
#include "tests/apps/command.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Args = std::vector<std::string>;
using Json = nlohmann::json;

const Args kResnet8 = {"plan", "resnet-cifar", "--depth", "8",          "--batch",
                       "16",   "--device",     "h200",    "--database", "none"};

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
  if (!KnowsEnginesOfH200()) return SkipCase("there is no cuDNN here");
  CHECK(RunNeap(Joined(kResnet8, {"--curve"})).out ==
        R"(predicted images/s of resnet8 at batch 16, fp32 nchw, on NVIDIA H200
  natural peak 21.291 MiB
  budget, MiB         4.25     4.5       5    5.75    6.25       7    7.75       9      10      11      12      22
  keep-all               -       -       -       -       -       -       -       -       -       -       -  565927
  liveness               -       -       -       -       -       -       -       -       -  499100  563420  565927
  offload                -       -       -       -       -   80641   81044   82152   82205   82205   82205   82205
  tensor-cache       53798   54655   55708   67733   76267   91811   95836  174630  300031  556626  563420  565927
  recompute-speed        -       -       -   47334   47352   47352   47352   47352   47450   47751   47751   47751
  recompute-memory       -       -       -   44515   44664   44826   44887   45077   45077   45092   45092   45092
  cost-aware             -       -       -   44515   44664   44826   44887   45077   45077   45092   45092   45092
  superneurons       53798   54655   68123   75042   89320   94344  123802  183814  325318  556626  563420  565927
  vdnn-all               -       -       -   44020   44020   44020   44020   44020   44020   44028   44028   44028
  vdnn-conv              -       -       -       -       -       -   91297   96166   98081   98157   98157   98157
  chen                   -       -       -       -       -       -  480392  482214  482214  482214  482214  482214
  auto              146673  154454  380828  462662  498390  521902  531302  542410  551535  557941  563420  565927
)");
}

TEST_CASE("the points of --curve are the plans of neap plan in the same budgets") {
  const Json curve = RunForJson(Joined(kResnet8, {"--curve", "--policy", "superneurons"})).at(0);
  CHECK(curve.at("net") == "resnet8");
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
        RunForJson(Joined(kResnet8, {"--policy", "superneurons", "--budget", budget})).at(0);
    CHECK(plan.at("minimum_budget_bytes") == line.at("minimum_budget_bytes"));
    for (const char* key : {"peak_bytes", "predicted_ms", "batch_copy_ms"})
      CHECK(plan.at(key) == point.at(key));
  }
  CHECK(points.front().at("images_per_second") < points.back().at("images_per_second"));
}

TEST_CASE("a policy has no speed in the budgets below its minimum") {
  const Json curve = RunForJson({"plan", "lenet", "--batch", "512", "--device", "h200",
                                 "--database", "none", "--curve"})
                         .at(0);
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
      RunForJson(Joined(kResnet8, {"--curve", "--policy", "tensor-cache", "--host-budget", "1KiB"}))
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
