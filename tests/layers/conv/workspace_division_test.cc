#include "neap/layers/conv/workspace_division.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace neap {
namespace {

using Front = std::vector<Configuration>;
using Fronts = std::vector<Front>;

constexpr WorkspaceDivisionGoal kExact = {.max_states = 1 << 20, .gap = 0};

// A front, rising in workspace and falling in time, with points off the hull.
Front RandomFront(std::mt19937& random, size_t count, uint32_t largest_step_bytes) {
  Front front;
  auto bytes = static_cast<int64_t>(random() % 3);
  int time = 1000 + static_cast<int>(random() % 100);
  for (size_t c = 0; c < count; ++c) {
    front.push_back({.workspace_bytes = bytes, .seconds = 1e-3 * time});
    bytes += static_cast<int64_t>(1 + random() % largest_step_bytes);
    time -= static_cast<int>(1 + random() % (1000 / count));
  }
  return front;
}

// Fronts of kernels, some of which are equal.
Fronts RandomFronts(std::mt19937& random, size_t kernels, uint32_t largest_step_bytes) {
  Fronts fronts;
  for (size_t k = 0; k < kernels; ++k) {
    if (k > 0 && random() % 3 == 0) {
      fronts.push_back(fronts[random() % k]);
    } else {
      fronts.push_back(RandomFront(random, 1 + random() % 5, largest_step_bytes));
    }
  }
  return fronts;
}

int64_t SmallestTotal(const Fronts& fronts) {
  int64_t bytes = 0;
  for (const Front& front : fronts) bytes += front.front().workspace_bytes;
  return bytes;
}
int64_t LargestTotal(const Fronts& fronts) {
  int64_t bytes = 0;
  for (const Front& front : fronts) bytes += front.back().workspace_bytes;
  return bytes;
}

double BestByBruteForce(const Fronts& fronts, size_t kernel, int64_t bytes) {
  if (bytes < 0) return std::numeric_limits<double>::infinity();
  if (kernel == fronts.size()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const Configuration& c : fronts[kernel]) {
    best =
        std::min(best, c.seconds + BestByBruteForce(fronts, kernel + 1, bytes - c.workspace_bytes));
  }
  return best;
}

// Asserts that it is a division with the sums that it claims, and returns its time.
double Checked(const Fronts& fronts, int64_t total_bytes, const WorkspaceDivision& division) {
  REQUIRE(division.choice.size() == fronts.size());
  int64_t bytes = 0;
  double seconds = 0;
  for (size_t k = 0; k < fronts.size(); ++k) {
    REQUIRE(division.choice[k] < fronts[k].size());
    bytes += fronts[k][division.choice[k]].workspace_bytes;
    seconds += fronts[k][division.choice[k]].seconds;
  }
  CHECK(bytes <= total_bytes);
  CHECK(division.workspace_bytes == bytes);
  CHECK(division.seconds == doctest::Approx(seconds).epsilon(1e-12));
  CHECK(division.seconds_bound <= division.seconds);
  CHECK(division.optimal == (division.gap() == 0));
  return division.seconds;
}

TEST_CASE("bytes go to the kernels that gain the most time from them") {
  // The drawing of workspace_division.h.
  const Fronts fronts = {{{{}, 10, 5}, {{}, 20, 4}}, {{{}, 10, 5}, {{}, 30, 1}}};
  const WorkspaceDivision division = DivideWorkspace(fronts, 40).value();
  CHECK(division.choice == std::vector<size_t>{0, 1});
  CHECK(division.workspace_bytes == 40);
  CHECK(division.seconds == 6);
  CHECK(division.seconds_bound == 6);
  CHECK(division.optimal);
  CHECK(DivideWorkspace(fronts, 39)->choice == std::vector<size_t>{1, 0});
  CHECK(DivideWorkspace(fronts, 50)->choice == std::vector<size_t>{1, 1});
}

TEST_CASE("if the kernels do not fit, the error has the smallest sufficient total") {
  const Fronts fronts = {{{{}, 1024, 5}, {{}, 2048, 4}}, {{{}, 1024, 5}}};
  CHECK(DivideWorkspace(fronts, 2048)->choice == std::vector<size_t>{0, 0});
  const absl::Status status = DivideWorkspace(fronts, 2047).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(status.message()) ==
        "a total workspace of 2047 bytes (1.999 KiB) is too small for 2 convolutions: they need at "
        "least 2048 bytes (2.000 KiB)");
}

TEST_CASE("no kernels need no bytes, and invalid fronts are refused") {
  CHECK(DivideWorkspace({}, 0)->optimal);
  const Front good = {{{}, 0, 2}, {{}, 10, 1}};
  for (const Front& bad :
       {Front{}, Front{{{}, 0, 1}, {{}, 10, 1}}, Front{{{}, 10, 2}, {{}, 10, 1}}}) {
    const absl::Status status = DivideWorkspace(Fronts{good, bad}, 100).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()).find("kernel 1") == 0);
  }
}

TEST_CASE("the division is the best of all, on random instances") {
  MESSAGE("seed 1");
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const uint32_t largest_step_bytes = i % 2 == 0 ? 5 : 100'000'000;
    const Fronts fronts = RandomFronts(random, 1 + random() % 6, largest_step_bytes);
    const int64_t smallest = SmallestTotal(fronts);
    const int64_t range = LargestTotal(fronts) - smallest + 1;
    const int64_t total_bytes =
        smallest + static_cast<int64_t>(random()) % std::max<int64_t>(range, 1);
    const WorkspaceDivision division = DivideWorkspace(fronts, total_bytes, kExact).value();
    const double best = BestByBruteForce(fronts, 0, total_bytes);
    CHECK(Checked(fronts, total_bytes, division) == doctest::Approx(best).epsilon(1e-9));
    CHECK(division.seconds_bound <= best * (1 + 1e-12));
    CHECK(division.gap() < 1e-7);
  }
}

TEST_CASE("without a search, the proven bound still holds") {
  MESSAGE("seed 2");
  std::mt19937 random(2);
  int open = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const Fronts fronts = RandomFronts(random, 5, 30);
    const int64_t total_bytes = (SmallestTotal(fronts) + LargestTotal(fronts)) / 2;
    const WorkspaceDivision division =
        DivideWorkspace(fronts, total_bytes, {.max_states = 0, .gap = 0}).value();
    const double best = BestByBruteForce(fronts, 0, total_bytes);
    CHECK(Checked(fronts, total_bytes, division) >= best * (1 - 1e-12));
    CHECK(division.seconds_bound <= best * (1 + 1e-12));
    open += division.optimal ? 0 : 1;
  }
  CHECK(open > 0);
}

TEST_CASE(
    "more workspace is never slower, and enough of it makes every kernel as fast as it gets") {
  MESSAGE("seed 3");
  std::mt19937 random(3);
  const Fronts fronts = RandomFronts(random, 30, 50);
  double seconds = std::numeric_limits<double>::infinity();
  for (int64_t bytes = SmallestTotal(fronts); bytes <= LargestTotal(fronts); bytes += 17) {
    CAPTURE(bytes);
    const WorkspaceDivision division = DivideWorkspace(fronts, bytes, kExact).value();
    CHECK(Checked(fronts, bytes, division) <= seconds * (1 + 1e-9));
    seconds = division.seconds;
  }
  const WorkspaceDivision all = DivideWorkspace(fronts, LargestTotal(fronts)).value();
  for (size_t k = 0; k < fronts.size(); ++k) CHECK(all.choice[k] == fronts[k].size() - 1);
  CHECK(all.optimal);
}

TEST_CASE("one total is no slower than the same bytes in equal parts") {
  MESSAGE("seed 4");
  std::mt19937 random(4);
  for (int i = 0; i < 50; ++i) {
    CAPTURE(i);
    const Fronts fronts = RandomFronts(random, 15, 100);
    const int64_t bytes_each = 150;
    double seconds = 0;
    for (const Front& front : fronts) {
      double fastest = 0;
      for (const Configuration& c : front)
        if (c.workspace_bytes <= bytes_each) fastest = c.seconds;
      seconds += fastest;
    }
    const auto division = DivideWorkspace(fronts, 15 * bytes_each, kExact);
    CHECK(division->seconds <= seconds * (1 + 1e-9));
  }
}

TEST_CASE("as many kernels as DenseNet-201 has, all different, end within the requested gap") {
  MESSAGE("seed 5");
  std::mt19937 random(5);
  Fronts fronts;
  while (fronts.size() < 600) fronts.push_back(RandomFront(random, 5 + random() % 16, 10'000'000));
  for (const int64_t percent : {10, 50, 90}) {
    CAPTURE(percent);
    const int64_t total_bytes = LargestTotal(fronts) / 100 * percent;
    const WorkspaceDivisionGoal goal;
    const WorkspaceDivision division = DivideWorkspace(fronts, total_bytes, goal).value();
    Checked(fronts, total_bytes, division);
    CHECK(division.gap() <= goal.gap);
    CHECK(DivideWorkspace(fronts, total_bytes, goal)->choice == division.choice);
  }
}

}  // namespace
}  // namespace neap
