#include "neap/core/plan/tensor_history.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/plan_script.h"
#include "tests/small_net.h"

namespace neap {
namespace {

// Histories by name. A step takes 1 s, a recomputation 2 s; offloads run at 1 KiB/s, prefetches at
// 2 KiB/s.
struct Followed {
  explicit Followed(const char* script) : plan(PlanFromScript(script)) {
    const Timeline timeline = PredictTimeline(plan, {.compute_seconds = SecondsEach(plan, 1, 2),
                                                     .d2h_bytes_per_second = 1024,
                                                     .h2d_bytes_per_second = 2048});
    for (TensorHistory& history : TensorHistories(plan, timeline)) {
      const std::string name = plan.tensors[history.tensor.index()].name;
      text[name] = Explain(plan, history);
      histories[name] = std::move(history);
    }
  }
  Plan plan;
  std::map<std::string, TensorHistory> histories;
  std::map<std::string, std::string> text;
};

TEST_CASE("a parameter that is on the host between iterations comes from there") {
  const auto device = OpenCpu();
  Graph net({.name = "wide", .batch = 64});
  std::string x = net.Add("fc1", FullyConnected{.out_features = 512}, {net.Input({3, 8, 8})});
  net.Loss(net.Add("fc2", FullyConnected{.out_features = 512}, {x}), SoftmaxCrossEntropy{});
  const Program program = Lower(net, {.offload_params = true}, device->description()).value();
  const PlanResult result = MakePlan(program, {.policy = "vdnn-all", .offload_params = true},
                                     device->description(), device->backend())
                                .value();
  const Plan& plan = result.plan;
  int on_host = 0;
  for (const TensorHistory& history : TensorHistories(plan, PredictTimeline(plan, result.costs))) {
    const PlanTensor& tensor = plan.tensors[history.tensor.index()];
    if (!tensor.on_host()) continue;
    ++on_host;
    REQUIRE(!history.trips.empty());
    CHECK(!history.trips.front().offload.has_value());
    CHECK(Explain(plan, history).starts_with("on the host before the iteration, back "));
  }
  CHECK(on_host > 0);
}

//   a     |f1|f2|  |  |f2'|      offloaded while f2 runs (2 s, one of them hidden), and prefetched
//   in copy     |-----| |in|        one second that nothing hides
TEST_CASE("an offloaded tensor: where it goes, what it costs, what it saves") {
  const Followed followed(kTransferPlan);
  CHECK(followed.text.at("a") ==
        "offloaded after f1 forward, back before f2 backward_params; freed after f2 "
        "backward_params, its last use");
  const TensorHistory& a = followed.histories.at("a");
  CHECK(a.transfer_us == doctest::Approx(3e6));
  CHECK(a.stall_us == doctest::Approx(2e6));
  CHECK(a.recompute_us == 0);
  CHECK(a.away_steps == 2);  // f3 forward and backward
  CHECK(a.absent_steps == 2);
  const TensorHistory& b = followed.histories.at("b");
  CHECK(b.away_steps == 0);
  CHECK(b.absent_steps == 3);  // before f2 and after f3
  CHECK(followed.text.at("b") == "freed after f3 forward, its last use");
  CHECK(followed.text.at("m") == "kept: its value outlives the iteration");
}

TEST_CASE("a recomputed tensor: by which step, from what") {
  const Followed followed(kRecomputePlan);
  CHECK(followed.text.at("y") ==
        "rebuilt once by bn forward from x, s; freed after f backward_params, its last use");
  const TensorHistory& y = followed.histories.at("y");
  CHECK(y.recompute_us == doctest::Approx(2e6));
  CHECK(y.away_steps == 1);                          // while f runs backward_data
  CHECK(followed.histories.at("s").reruns.empty());  // the recomputation reads it
}

//   KiB 2 |--a--|--b--|--c--|     one region, three tensors one after the other
TEST_CASE("tensors in place share bytes with the one before") {
  const Followed followed(kInPlacePlan);
  CHECK(followed.text.at("b") == "in place, over a; freed after relu forward, its last use");
  CHECK(followed.histories.at("c").over == followed.histories.at("b").tensor);
  CHECK(!followed.histories.at("a").over);
  CHECK(followed.histories.at("a").away_steps == 0);
  CHECK(followed.histories.at("b").away_steps == 1);  // while it is made, the bytes are still a's
}

//   a   |f|   |g|   |h|     one copy on the host, read twice
TEST_CASE("a copy that is prefetched several times") {
  const Followed followed(R"(
    batch 1 budget 1 arena 1 peak 1 activations 1024 host 1 host_pool 1
    tensor a activation 1024
    tensor m state 4
    step f forward writes a
    step g forward reads a accumulates m
    step h forward reads a accumulates m
    alloc a 0
    run f forward
    offload a 0
    free a
    alloc a 0
    prefetch a
    run g forward
    free a
    alloc a 0
    prefetch a
    run h forward
    free a
  )");
  CHECK(followed.text.at("a") ==
        "offloaded after f forward, back 2 times, first before g forward; freed after h forward, "
        "its last use");
  CHECK(followed.histories.at("a").trips.size() == 2);
}

TEST_CASE("a weight may be offloaded and must be prefetched again") {
  const Followed followed(kPersistentTransferPlan);
  CHECK(followed.text.at("w") ==
        "offloaded, back before fc update; kept: its value outlives the iteration");
  CHECK(followed.histories.at("w").away_steps == 2);
}

TEST_CASE("a tensor that nothing touches") {
  const Followed followed(R"(
    batch 1 budget 2 arena 2 peak 2 activations 0 host 0
    tensor x input 1024
    tensor m state 1024
    step s forward accumulates m
    alloc x 0
    alloc m 1
    run s forward
    free x
  )");
  CHECK(followed.text.at("x") == "nothing uses it");
}

}  // namespace
}  // namespace neap
