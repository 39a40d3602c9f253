#include "neap/memory/policies/modnn.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/modnn_copies.h"
#include "neap/memory/policies/modnn_space.h"
#include "neap/memory/search/action_writer.h"
#include "neap/recompute/recompute.h"
#include "tests/memory/planning.h"
#include "tests/memory/transfer/stays.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

constexpr int64_t kBlock = kBlockBytes;
constexpr int64_t kActivation = 4 * kBlock;  // of the chain

// A program with the times of its runs: a second each, without workspace, unless a test says more.
struct Iteration {
  explicit Iteration(Program of, bool in_place = true)
      : program(std::move(of)),
        liveness(FindLiveness(program, WithoutReruns(program).runs, in_place)),
        choices(liveness.runs.size(), std::vector<Configuration>{{.seconds = 1}}) {}

  std::optional<Schedule> In(int64_t capacity_bytes, double bytes_per_second) const {
    std::vector<absl::Span<const Configuration>> configurations;
    for (const std::vector<Configuration>& choice : choices) configurations.emplace_back(choice);
    return ModnnSchedule({.program = program,
                          .liveness = liveness,
                          .configurations = configurations,
                          .bytes_per_second = bytes_per_second,
                          .capacity_bytes = capacity_bytes});
  }
  // The run of this step, such as "conv2 forward".
  int PositionOf(const std::string& step) const {
    for (size_t i = 0; i < liveness.runs.size(); ++i) {
      if (program.StepName(program.steps[liveness.runs[i].step.index()]) == step)
        return static_cast<int>(i);
    }
    return -1;
  }
  // The smallest capacity, to `step` bytes, with which there is a schedule.
  int64_t LeastCapacity(int64_t step) const {
    int64_t capacity = step;
    while (!In(capacity, 0).has_value()) capacity += step;
    return capacity;
  }
  int64_t AllBytes() const {
    int64_t bytes = 0;
    for (const Lifetime& life : liveness.lives)
      bytes += RoundUp(program.tensor(life.tensor).spec.size_bytes(), kBlock);
    return bytes;
  }

  Program program;
  Liveness liveness;
  std::vector<std::vector<Configuration>> choices;  // by position
};

int64_t OffloadedBytes(const Program& program, const Schedule& schedule) {
  int64_t bytes = 0;
  for (const Stay& stay : schedule.residency.stays)
    bytes += stay.offload_at.has_value() ? program.tensor(stay.tensor).spec.size_bytes() : 0;
  return bytes;
}

// Blocks of memory, each with the runs in which it is taken.
struct Taken {
  Region region;
  int begin = 0, end = 0;
};

std::vector<Taken> TakenBy(const Schedule& schedule) {
  std::vector<Taken> taken;
  const Buffers buffers = FindBuffers(schedule.residency);
  for (size_t i = 0; i < schedule.residency.stays.size(); ++i) {
    if (buffers.first[i] == i) {
      taken.push_back({schedule.places[i], schedule.residency.stays[i].begin, buffers.end[i]});
    } else {
      CHECK(schedule.places[i] == schedule.places[buffers.first[i]]);
    }
  }
  for (size_t i = 0; i < schedule.workspaces.size(); ++i) {
    CHECK(schedule.workspace_places[i].bytes == schedule.workspaces[i]);
    const int position = static_cast<int>(i);
    if (schedule.workspaces[i] > 0)
      taken.push_back({schedule.workspace_places[i], position, position + 1});
  }
  return taken;
}

// Whatever the times: the stays are sound, and no two of them have the same bytes at the same run.
void CheckSchedule(const Iteration& iteration, const Schedule& schedule, int64_t capacity_bytes) {
  testing::CheckResidency(iteration.program, iteration.liveness, schedule.workspaces,
                          schedule.residency);
  const std::vector<Taken> taken = TakenBy(schedule);
  int overlaps = 0;
  for (size_t a = 0; a < taken.size(); ++a) {
    REQUIRE(taken[a].region.end() <= capacity_bytes);
    for (size_t b = a + 1; b < taken.size(); ++b) {
      const bool at_once = taken[a].begin < taken[b].end && taken[b].begin < taken[a].end;
      const bool overlap = taken[a].region.offset < taken[b].region.end() &&
                           taken[b].region.offset < taken[a].region.end();
      overlaps += at_once && overlap;
    }
  }
  REQUIRE(overlaps == 0);
}

TEST_CASE(
    "schemes are neighbours that make enough room; a block that must stay ends them (Fig. 6)") {
  ModnnSpace space(12 * kBlock);
  // Blocks 1 to 6 of 2, 2, 1, 2, 3 and 1; block 4 must stay, and one block above is free.
  const int64_t sizes[] = {2, 2, 1, 2, 3, 1};
  for (size_t i = 0; i < std::size(sizes); ++i)
    REQUIRE(space.Allocate(i + 1, sizes[i] * kBlock).has_value());
  CHECK(!space.Allocate(7, 4 * kBlock).has_value());
  std::vector<std::string> schemes;
  space.VisitSchemes(
      4 * kBlock, [](size_t block) { return block != 4; },
      [&](absl::Span<const size_t> blocks) {
        std::string scheme;
        for (const size_t block : blocks) absl::StrAppend(&scheme, block);
        schemes.push_back(scheme);
      });
  CHECK(schemes == std::vector<std::string>{"12", "56"});
  for (const size_t block : {5, 6}) space.Free(block);
  const std::optional<Region> region = space.Allocate(7, 4 * kBlock);
  REQUIRE(region.has_value());
  CHECK(*region == Region{7 * kBlock, 4 * kBlock});
}

TEST_CASE(
    "an allocation takes a hole of exactly its size before a larger one that is lower (3.3)") {
  ModnnSpace space(10 * kBlock);
  for (const auto& [block, blocks] : {std::pair(1, 3), {2, 1}, {3, 2}, {4, 1}})
    REQUIRE(space.Allocate(static_cast<size_t>(block), blocks * kBlock).has_value());
  space.Free(1);
  space.Free(3);
  CHECK(space.Allocate(5, 2 * kBlock)->offset == 4 * kBlock);
  CHECK(space.Allocate(6, 2 * kBlock)->offset == 0);
}

TEST_CASE("a copy begins in the first gap that holds it, and can be taken back") {
  ModnnCopies copies(100);
  CHECK(copies.Insert(0, 200) == doctest::Approx(2));
  CHECK(copies.Insert(5, 100) == doctest::Approx(6));
  copies.Keep();
  CHECK(copies.Insert(1, 300) == doctest::Approx(5));  // [2, 5)
  CHECK(copies.Insert(1, 100) == doctest::Approx(7));  // nothing is free before 6
  copies.Undo();
  CHECK(copies.Insert(1, 400) == doctest::Approx(10));  // the gap is too short
  CHECK(copies.end() == doctest::Approx(10));
  CHECK(ModnnCopies(0).Insert(3, 100) == 3);
}

TEST_CASE("random networks: schedules are sound in every capacity, and move nothing with room") {
  for (uint32_t seed = 0; seed < testing::RandomSeeds(60); ++seed) {
    CAPTURE(seed);
    Iteration iteration(BuildProgram(testing::RandomGraph(seed), {}).value(), seed % 2 == 0);
    for (size_t i = 0; i < iteration.choices.size(); i += 3) {
      iteration.choices[i] = {
          {.workspace_bytes = 5 * kBlock, .seconds = 0.5},
          {.workspace_bytes = static_cast<int64_t>(seed % 2) * kBlock, .seconds = 1}};
    }
    const int64_t all = iteration.AllBytes() + 5 * kBlock;
    int made = 0;
    for (int part = 1; part <= 16; ++part) {
      const int64_t capacity = all * part / 16 / kBlock * kBlock;
      CAPTURE(capacity);
      const double bytes_per_second = seed % 3 == 0 ? 0 : 1000.0 * (seed % 3);
      const std::optional<Schedule> schedule = iteration.In(capacity, bytes_per_second);
      if (!schedule.has_value()) {
        CHECK(made == 0);  // what fits in less fits in more
        continue;
      }
      ++made;
      CheckSchedule(iteration, *schedule, capacity);
      if (part == 16) CHECK(OffloadedBytes(iteration.program, *schedule) == 0);
    }
    CHECK(made > 0);
  }
}

TEST_CASE("random networks: what leaves was used since it came, unless everything leaves") {
  int left = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(60); ++seed) {
    CAPTURE(seed);
    const Iteration iteration(BuildProgram(testing::RandomGraph(seed), {}).value());
    const int64_t least = iteration.LeastCapacity(kBlock);
    const std::optional<Schedule> schedule = iteration.In(least + 2 * kBlock, 1000);
    REQUIRE(schedule.has_value());
    for (const Stay& stay : schedule->residency.stays) {
      const Lifetime& life = iteration.liveness.lives[stay.life];
      if (stay.end == life.uses.back() + 1) continue;
      const auto stays_there = [&](const Stay& other) {
        return IsCached(iteration.program.tensor(other.tensor).role) && other.begin < stay.end &&
               stay.end < other.end;
      };
      const bool is_all = std::none_of(schedule->residency.stays.begin(),
                                       schedule->residency.stays.end(), stays_there);
      const auto uses = std::count_if(life.uses.begin(), life.uses.end(), [&](int use) {
        return stay.begin <= use && use < stay.end && (stay.fetched || use > life.begin);
      });
      const bool is_image = IsBatch(iteration.program.tensor(stay.tensor).role);
      CHECK((uses > 0 || is_all || is_image));
      ++left;
    }
  }
  CHECK(left > 50);
}

// conv1 relu1 conv2 relu2 ... fc: one convolution's input leaves, and comes back in time.
TEST_CASE("a fetch begins before the last run after which it would be late (equation 9)") {
  const Iteration iteration(testing::ConvolutionChain(8));
  const int64_t natural = [&] {
    int64_t least = 0;
    while (true) {
      const std::optional<Schedule> schedule = iteration.In(least += kBlock, 0);
      if (schedule.has_value() && OffloadedBytes(iteration.program, *schedule) == 0) return least;
    }
  }();
  const int64_t capacity = natural - kBlock;
  for (const double copy_seconds : {0.5, 1.5, 2.5, 3.5}) {
    CAPTURE(copy_seconds);
    const double bytes_per_second = static_cast<double>(kActivation) / copy_seconds;
    const std::optional<Schedule> schedule = iteration.In(capacity, bytes_per_second);
    REQUIRE(schedule.has_value());
    CheckSchedule(iteration, *schedule, capacity);
    int fetched = 0;
    for (const Stay& stay : schedule->residency.stays) {
      if (!stay.fetched) continue;
      ++fetched;
      const std::vector<int>& uses = iteration.liveness.lives[stay.life].uses;
      const int use = *std::lower_bound(uses.begin(), uses.end(), stay.begin);
      // Runs of a second each: it begins so many of them before its reader, and not one more.
      const int64_t bytes = iteration.program.tensor(stay.tensor).spec.size_bytes();
      const int needed =
          static_cast<int>(std::ceil(static_cast<double>(bytes) / bytes_per_second - 1e-9));
      CHECK(use - stay.begin <= needed);
      if (fetched == 1) CHECK(use - stay.begin == needed);
    }
    CHECK(fetched > 0);
  }
}

TEST_CASE(
    "a workspace is taken if it saves more than the copies that make room are late (eq. 10)") {
  Iteration iteration(testing::ConvolutionChain(6));
  const int position = iteration.PositionOf("conv6 forward");
  REQUIRE(position > 0);
  // With room for all tensors but not for the workspace beside them.
  int64_t capacity = kBlock;
  while (true) {
    const std::optional<Schedule> schedule = iteration.In(capacity += kBlock, 0);
    if (schedule.has_value() && OffloadedBytes(iteration.program, *schedule) == 0) break;
  }
  const auto workspace_if = [&](double saved_seconds, double bytes_per_second) {
    iteration.choices[static_cast<size_t>(position)] = {
        {.workspace_bytes = capacity, .seconds = 0.01},  // never fits
        {.workspace_bytes = 2 * kActivation, .seconds = 1 - saved_seconds},
        {.seconds = 1}};
    const std::optional<Schedule> schedule = iteration.In(capacity, bytes_per_second);
    REQUIRE(schedule.has_value());
    CheckSchedule(iteration, *schedule, capacity);
    return schedule->workspaces[static_cast<size_t>(position)];
  };
  // Copies that take no time cost nothing; those that take a minute each cost more than is saved.
  CHECK(workspace_if(0.25, 0) == 2 * kActivation);
  CHECK(workspace_if(0.25, static_cast<double>(kActivation) / 60) == 0);
  // Convolutions ago, the first activations were complete: their copies are hidden behind the runs.
  CHECK(workspace_if(0.25, 4 * static_cast<double>(kActivation)) == 2 * kActivation);
}

TEST_CASE("where only one run's operands fit, everything leaves before each run and comes back") {
  const Iteration iteration(testing::ConvolutionChain(4));
  const int64_t capacity = iteration.LeastCapacity(kBlock);
  const std::optional<Schedule> schedule = iteration.In(capacity, 1000);
  CheckSchedule(iteration, *schedule, capacity);
  int64_t most = 0;
  for (const Usage& usage : schedule->residency.usage) most = std::max(most, usage.bytes);
  CHECK(most <= capacity);
  CHECK(most > capacity - 2 * kActivation);
  CHECK(OffloadedBytes(iteration.program, *schedule) > 0);
}

TEST_CASE("plans by modnn are accepted, with parameters on the host and in sub-batches, too") {
  DefaultCatalog catalog;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(30); ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.batch = 4, .batch_norm = false});
    const ProgramOptions lowering = {.offload_params = seed % 2 == 0,
                                     .sub_batches = seed % 3 == 0 ? 2 : 1};
    const Program program = BuildProgram(graph, lowering).value();
    PlannerOptions options = {.policy = "modnn"};
    const PlanResult roomy = MakePlan(program, options, testing::H200(), catalog).value();
    const int64_t least = roomy.stats.minimum_budget_bytes;
    for (int part = 0; part <= 4; ++part) {
      options.budget_bytes = least + (roomy.plan.peak_bytes - least) * part / 4;
      CAPTURE(options.budget_bytes);
      const absl::StatusOr<PlanResult> result =
          MakePlan(program, options, testing::H200(), catalog);
      REQUIRE_MESSAGE(result.ok(), result.status().ToString());
      CHECK(result->plan.peak_bytes <= options.budget_bytes);
      const absl::Status verified = Verify(result->plan);
      REQUIRE_MESSAGE(verified.ok(), verified.ToString());
      CHECK(MatchesProgram(result->plan, program).ok());
    }
  }
}

}  // namespace
}  // namespace neap
