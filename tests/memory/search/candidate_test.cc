#include "neap/memory/search/candidate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/liveness.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/memory/finished_plan.h"
#include "tests/memory/planning.h"
#include "tests/memory/transfer/stays.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;

// With the smallest workspaces. Without rules everything stays in the arena from its first use to
// its last.
Candidate Live(const Program& program, const EngineTable& engines, bool in_place,
               const ResidencyRules& rules = {}) {
  const Liveness liveness = FindLiveness(program, ProgramOrder(program), in_place);
  std::vector<int64_t> workspaces;
  for (const Run& run : liveness.runs)
    workspaces.push_back(RoundUp(engines.Smallest(run).workspace_bytes, kBlockBytes));
  Residency residency = DecideResidency(program, liveness, workspaces, rules);
  return {.runs = liveness.runs,
          .residency = std::move(residency),
          .workspaces = std::move(workspaces)};
}

// Returns the bytes that the actions take in an arena of the candidate's bytes.
int64_t CheckWritten(const Program& program, const EngineTable& engines, bool in_place,
                     PlacementMethod placement, Candidate& placed) {
  placed = PlaceCandidate(program, Live(program, engines, in_place), placement, {});
  REQUIRE(placed.lower_bound_bytes <= placed.arena_bytes);
  REQUIRE(placed.busiest_bytes <= placed.lower_bound_bytes);
  const auto written = WriteCandidate(program, placed, engines, placement, placed.arena_bytes);
  REQUIRE(written.ok());
  const int64_t block_less = placed.arena_bytes - kBlockBytes;
  REQUIRE(!WriteCandidate(program, placed, engines, placement, block_less).ok());
  return written->written.peak_bytes;
}

TEST_CASE("random networks: a candidate is written in its arena's bytes, and not in a block less") {
  DefaultCatalog without_workspaces;
  testing::WorkspaceCatalog catalog;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    const auto engines_of = [&](EngineCatalog& engines) {
      return EngineTable::List(program, {}, /*strict=*/false, H200(), engines).value();
    };
    for (const PlacementMethod placement : kPlacementMethods) {
      CAPTURE(std::string(Name(placement)));
      const bool in_place = seed % 2 == 0;
      Candidate placed;
      CHECK(CheckWritten(program, engines_of(without_workspaces), in_place, placement, placed) ==
            placed.arena_bytes);
      CHECK(CheckWritten(program, engines_of(catalog), in_place, placement, placed) <=
            placed.arena_bytes);
    }
  }
}

TEST_CASE(
    "random networks: in an arena without end everything moves as in a placed one, and sooner") {
  testing::WorkspaceCatalog catalog;
  DeviceDescription device = H200();
  device.slowdown_by_copies_out = device.slowdown_by_copies_back =
      0;  // a wait may move a copy to where nothing runs
  int sooner = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(40); ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    const EngineTable engines =
        EngineTable::List(program, {}, /*strict=*/false, H200(), catalog).value();
    const Candidate candidate =
        Live(program, engines, /*in_place=*/true, {.evictable = Evictable::kAll, .limit = {}});
    Candidate apart = candidate;
    apart.written = WriteApart(program, apart.runs, apart.residency, engines);
    const Candidate placed = PlaceCandidate(program, candidate, PlacementMethod::kOffline, {});
    const Candidate written =
        WriteCandidate(program, placed, engines, PlacementMethod::kOffline, placed.arena_bytes)
            .value();
    const Plan tight = testing::FinishedPlan(program, device, written, placed.arena_bytes);
    const Plan wide = testing::FinishedPlan(program, device, apart, apart.written.peak_bytes);
    CHECK(TotalMovement(wide).offloaded_bytes == TotalMovement(tight).offloaded_bytes);
    CHECK(wide.predicted_ms <= tight.predicted_ms * (1 + 1e-12));
    sooner += wide.predicted_ms < 0.999 * tight.predicted_ms;
  }
  CHECK(sooner > 0);
}

TEST_CASE("the busiest step is the one whose live bytes are most, with its workspace") {
  // Each activation takes four blocks. conv2 has its input, its output and a workspace; the first
  // of several steps with the same bytes counts.
  const Program program = testing::ConvolutionChain(2);
  DefaultCatalog catalog;
  const EngineTable engines =
      EngineTable::List(program, {}, /*strict=*/false, H200(), catalog).value();
  Candidate candidate = Live(program, engines, /*in_place=*/false);
  candidate.workspaces[2] = 100 * kBlockBytes;
  candidate.residency.usage[2].bytes += 100 * kBlockBytes;
  const Candidate placed = PlaceCandidate(program, candidate, PlacementMethod::kOffline, {});
  CHECK(placed.busiest_step == candidate.runs[2].step);
  CHECK(placed.busiest_bytes == PersistentBytes(program) + candidate.residency.usage[2].bytes);
}

}  // namespace
}  // namespace neap
