#include "neap/layers/conv/engine_losses.h"

#include <doctest/doctest.h>

#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/catalog/engine_id.h"
#include "neap/layers/devices/device_description.h"

namespace neap {
namespace {

using doctest::Approx;

struct Row {
  std::string_view group, family;
  double logarithm;
};
constexpr Row kRows[] = {
#include "neap/layers/conv/engine_losses.inc"
};

constexpr std::string_view kGroup = "dense backward_data 16-bit nhwc";

double LossOf(std::string_view group, std::string_view family) {
  for (const Row& row : kRows) {
    if (row.group == group && row.family == family) return std::exp(row.logarithm);
  }
  FAIL("no row of ", family);
  return 0;
}

Engine Named(std::string id) { return EngineFromText(std::move(id)); }
Engine OnTensorCores(std::string id) { return {.id = std::move(id), .uses_tensor_cores = true}; }

TEST_CASE("where only families that lose much are listed, the first has lost it, too") {
  constexpr std::string_view kWeights = "dense backward_params 16-bit nhwc";
  const double lost = LossOf(kWeights, "cast:eng0");
  REQUIRE(lost > 100);
  CHECK(SlowdownsOf(std::vector<Engine>{Named("cast:eng0")}, kWeights).front() == Approx(lost));
  const std::vector<double> both =
      SlowdownsOf(std::vector<Engine>{Named("cast:eng1"), Named("cast:eng0_k1=2")}, kWeights);
  CHECK(both.front() == Approx(LossOf(kWeights, "cast:eng1")));
  CHECK(both.back() == Approx(lost));
  // One that is not known to be slow makes the first an ordinary one.
  const std::vector<Engine> usual = {Named("cast:eng0"), OnTensorCores("cast:eng33")};
  CHECK(SlowdownsOf(usual, kWeights).front() == 1);
  // What is not deterministic says nothing.
  std::vector<Engine> unstable = {OnTensorCores("cast:eng33"), Named("cast:eng0")};
  unstable.front().deterministic = false;
  CHECK(SlowdownsOf(unstable, kWeights).back() == Approx(lost));
}

TEST_CASE("an engine that knows its loss has that one, also if it is the only one") {
  const Engine fast = OnTensorCores("fast"), slow = {.id = "neap", .slowdown = 40};
  CHECK(SlowdownsOf(std::vector<Engine>{fast, slow}, "pass") == std::vector<double>{1, 40});
  CHECK(SlowdownsOf(std::vector<Engine>{slow}, "pass") == std::vector<double>{40});
  CHECK(AllLoseMuch(std::vector<Engine>{slow}, "pass"));
  CHECK(!AllLoseMuch(std::vector<Engine>{fast, slow}, "pass"));
}

TEST_CASE("a library's reference takes hundreds of times as long as any other engine") {
  const std::vector<Engine> engines = {
      Named("jit"), Named("gemm"), {.id = "ref", .is_reference = true}};
  const std::vector<double> slower = SlowdownsOf(engines, "dense forward fp32 nchw");
  CHECK(slower[0] == 1);
  CHECK(slower[1] < 2);
  CHECK(slower[2] > 200);
  CHECK(SlowdownsOf(std::vector<Engine>{engines[2]}, "dense forward fp32 nchw")[0] == 1);
}

TEST_CASE("the rows are in order, each once, and no loss is a gain") {
  REQUIRE(std::size(kRows) > 50);
  for (size_t i = 0; i < std::size(kRows); ++i) {
    CAPTURE(kRows[i].group);
    CAPTURE(kRows[i].family);
    CHECK(kRows[i].logarithm >= 0);
    if (i == 0) continue;
    const Row& before = kRows[i - 1];
    CHECK(std::pair(before.group, before.family) < std::pair(kRows[i].group, kRows[i].family));
  }
}

TEST_CASE("an engine loses what its family loses, with any knobs, but never overtakes the first") {
  const std::vector<double> slower =
      SlowdownsOf(std::vector<Engine>{Named("eng0_k1=1"), Named("eng0_k2=7"), Named("eng1"),
                                      Named("eng67_k2=4")},
                  kGroup);
  REQUIRE(slower.size() == 4);
  CHECK(slower[0] == 1);  // the first, whatever its family loses elsewhere
  CHECK(slower[1] == Approx(LossOf(kGroup, "eng0")));
  CHECK(slower[2] == Approx(LossOf(kGroup, "eng1")));
  CHECK(slower[3] == Approx(LossOf(kGroup, "eng67")));
}

TEST_CASE("equal losses keep the library's order") {
  REQUIRE(LossOf(kGroup, "cublaslt-0") == 1);
  const std::vector<double> slower = SlowdownsOf(
      std::vector<Engine>{Named("a"), Named("cublaslt-0_1"), Named("cublaslt-0_2")}, kGroup);
  CHECK(slower[0] == 1);
  CHECK(slower[1] > 1);
  CHECK(slower[2] > slower[1]);
  CHECK(slower[2] < 1.05);
}

TEST_CASE("unknown engines lose by place") {
  std::vector<Engine> engines;
  for (const char* id : {"a", "b", "c", "d"}) engines.push_back(Named(id));
  const std::vector<double> expected = {1, 1.1, 1.2, 1.3};
  const std::vector<double> by_place = SlowdownsOf(engines, kGroup);
  const std::vector<double> without_group = SlowdownsOf(engines, "no such group");
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(by_place[i] == Approx(expected[i]));
    CHECK(without_group[i] == Approx(expected[i]));
  }
}

TEST_CASE("unknown engines without matrix units lose what such engines lose behind one with them") {
  const std::vector<Engine> engines = {OnTensorCores("a"), OnTensorCores("b"), Named("c")};
  const std::vector<double> slower = SlowdownsOf(engines, kGroup);
  CHECK(slower[1] == Approx(1.1));
  CHECK(slower[2] == Approx(LossOf(kGroup, "*")));
  CHECK(slower[2] > 3);
  // The other way round, the library knows better than the table: by the row of such engines.
  const std::vector<double> after =
      SlowdownsOf(std::vector<Engine>{Named("c"), OnTensorCores("a")}, kGroup);
  CHECK(after[1] == Approx(LossOf(kGroup, "*tensor-core")));
}

TEST_CASE("an engine without matrix units loses no more than its arithmetic takes") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  constexpr std::string_view kWeights = "dense backward_params 16-bit nhwc";
  const double lost = LossOf(kWeights, "cast:eng0");
  const std::vector<Engine> engines = {OnTensorCores("cast:eng10"), Named("cast:eng0")};
  // 32 channels of one, for two volumes of 224^3 voxels: the first engine moves bytes.
  constexpr double kFlops = 2.0 * 27 * 32 * 2 * 224 * 224 * 224, kSeconds = 6e-3;
  const double most = MostLossOf(kFlops, kSeconds, h200);
  CHECK(most < lost / 4);
  CHECK(most * kSeconds > 0.1);
  CHECK(SlowdownsOf(engines, kWeights, most).back() == Approx(most));
  // The first engine computes.
  CHECK(MostLossOf(1e12, 3e-3, h200) > lost);
  CHECK(SlowdownsOf(engines, kWeights, MostLossOf(1e12, 3e-3, h200)).back() == Approx(lost));
  // A launch takes longer than either.
  CHECK(MostLossOf(1e6, 5e-6, h200) == Approx(4).epsilon(0.02));
  CHECK(std::isinf(MostLossOf(0, 5e-6, h200)));
  // Engines of a kind differ by more than their arithmetic.
  const std::vector<Engine> alike = {Named("cast:a"), Named("cast:eng0")};
  CHECK(SlowdownsOf(alike, kWeights, most).back() == Approx(lost));
}

TEST_CASE("the first deterministic engine is the measure, and of others nothing is known") {
  std::vector<Engine> engines = {Named("eng0"), Named("a"), Named("eng1"), Named("b")};
  engines[0].deterministic = engines[2].deterministic = false;
  const std::vector<double> slower = SlowdownsOf(engines, kGroup);
  CHECK(slower[0] == 1);
  CHECK(slower[1] == 1);
  CHECK(slower[2] == 1);
  CHECK(slower[3] == Approx(1.1));  // the second of those that count
}

TEST_CASE("engines with a ReLU have an order of their own") {
  const std::vector<Engine> engines = {Named("a"), Named("relu:a"), Named("b"), Named("relu:b"),
                                       Named("relu:c")};
  const std::vector<double> slower = SlowdownsOf(engines, kGroup);
  CHECK(slower[0] == 1);
  CHECK(slower[1] == 1);
  CHECK(slower[2] == Approx(1.1));
  CHECK(slower[3] == Approx(1.1));
  CHECK(slower[4] == Approx(1.2));
}

TEST_CASE("no engine is faster than the first, in every group of the table") {
  for (const Row& row : kRows) {
    std::vector<Engine> engines;
    for (const Row& other : kRows) {
      if (other.group == row.group) engines.push_back(Named(std::string(other.family)));
    }
    for (const double slower : SlowdownsOf(engines, row.group)) CHECK(slower >= 1);
  }
  CHECK(SlowdownsOf({}, kGroup).empty());
}

}  // namespace
}  // namespace neap
