#include "apps/plan/tensor_alternatives.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/layers/devices/device_description.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using apps::TensorAlternatives;
using Json = nlohmann::json;

Program Resnet8() {
  const Graph graph = nets::Build("resnet-cifar", {.batch = 4, .depth = 8}).value();
  return Lower(graph, {}, DescribedDevice("h200").value()).value();
}

// A rerun of step n takes n + 1 seconds, half a second of which the first run loses.
RebuildPrices Counted(const Program& program) {
  RebuildPrices prices;
  for (const Step& step : program.steps) {
    prices.rerun_seconds.push_back(step.id.value + 0.5);
    prices.first_run_seconds.push_back(0.5);
  }
  return prices;
}

std::map<std::string, TensorAlternatives> ByName(const Program& program,
                                                 const RebuildPrices& prices,
                                                 bool may_move = true) {
  const TimelineCosts costs = {
      .d2h_bytes_per_second = 1e6, .h2d_bytes_per_second = 2e6, .transfer_latency_seconds = 10};
  std::map<std::string, TensorAlternatives> found;
  for (const TensorAlternatives& of : apps::FindAlternatives(program, costs, prices, may_move))
    found[program.tensor(of.tensor).name] = of;
  return found;
}

TEST_CASE("a result is moved over the link both ways, or rebuilt by the step that writes it") {
  const Program program = Resnet8();
  const auto found = ByName(program, Counted(program));
  const TensorAlternatives& conv = found.at("conv1");
  const Step& step = program.steps.front();
  REQUIRE(step.writes.front().tensor == conv.tensor);
  const auto bytes = static_cast<double>(program.tensor(conv.tensor).spec.size_bytes());
  CHECK(conv.move_us.value() == doctest::Approx(20e6 + bytes + bytes / 2));
  CHECK(conv.rebuild_us == 1e6 * (step.id.value + 1));
}

TEST_CASE("where nothing moves, a result can only be rebuilt") {
  const Program program = Resnet8();
  const auto found = ByName(program, Counted(program), /*may_move=*/false);
  CHECK(found.size() == ByName(program, Counted(program)).size());
  for (const auto& named : found) CHECK(!named.second.move_us.has_value());
  CHECK(found.at("conv1").rebuild_us.has_value());
}

TEST_CASE("the batch and what a rerun reads cannot be rebuilt") {
  const Program program = Resnet8();
  const auto found = ByName(program, Counted(program));
  int batch = 0, statistics = 0;
  for (const auto& named : found) {
    CAPTURE(named.first);
    const Role role = program.tensor(named.second.tensor).role;
    batch += IsBatch(role);
    const bool is_statistics = named.first.ends_with(".mean");
    statistics += is_statistics;
    if (IsBatch(role) || is_statistics) CHECK(!named.second.rebuild_us.has_value());
  }
  CHECK(batch > 0);
  CHECK(statistics > 0);
}

TEST_CASE("a step that no engine runs twice with the same bits rebuilds nothing") {
  const Program program = Resnet8();
  RebuildPrices prices = Counted(program);
  prices.rerun_seconds.front() = std::numeric_limits<double>::infinity();
  const auto found = ByName(program, prices);
  CHECK(!found.at("conv1").rebuild_us.has_value());
  CHECK(found.at("conv1").move_us > 0);
}

TEST_CASE("what backward does not read, or writes itself, or what persists, has no alternatives") {
  const Program program = Resnet8();
  const auto found = ByName(program, Counted(program));
  for (const auto& named : found) {
    CAPTURE(named.first);
    const Role role = program.tensor(named.second.tensor).role;
    CHECK((role == Role::kActivation || role == Role::kSaved || IsBatch(role)));
  }
  CHECK(found.count("conv1.weight") == 0);
  CHECK(found.size() < program.tensors.size() / 2);
}

}  // namespace
}  // namespace neap::testing
