// Training that pauses, with external tensors: also when steps are given up, it is that of a
// session without homes, bit for bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "tests/core/run/external_memory.h"
#include "tests/core/run/homes_pair.h"
#include "tests/core/run/paused_training.h"
#include "tests/given_gradients.h"
#include "tests/small_training.h"

namespace neap::homes_test {

using testing::CallersMemory;
using testing::GivenLosses;

namespace {

// The values of external tensors, by name.
std::map<std::string, std::vector<float>> ExternalValues(const Pair& pair) {
  std::map<std::string, std::vector<float>> values;
  for (const ExternalTensor& one : pair.options.external)
    values[one.tensor] = pair.memory.Read(one.tensor);
  return values;
}

// A step that both begin and give up. It changes running statistics alone, as without homes.
void TrainGivenUp(Pair& pair, const GivenLosses& losses, const Batch& batch) {
  const std::map<std::string, std::vector<float>> before = ExternalValues(pair);
  const Feeds feeds = losses.FeedsOf(pause_test::FeedsOf(batch));
  const std::vector<NamedTensor> of_plain = pair.plain.Forward(feeds).value();
  CHECK(SameBits(pair.homes->Forward(feeds).value().at(0).values, of_plain.at(0).values));
  REQUIRE(pair.plain.SkipBackward().ok());
  REQUIRE(pair.homes->SkipBackward().ok());
  int states = 0;
  for (const auto& [tensor, values] : before) {
    const std::string& name = tensor;
    CAPTURE(name);
    const bool is_state = name.starts_with("bn1.running_");
    CHECK(SameBits(pair.memory.Read(name), values) != is_state);
    states += is_state ? 1 : 0;
  }
  CHECK(states == 2);
  pair.CheckSame();
}

TEST_CASE("training may pause with external tensors, but not with states on the host") {
  const auto device = OpenCpu();
  const Graph net = BlockNet({.batch_norm = true});
  const Graph given = GivenLosses(net).net();
  const std::vector<std::string> weights = {"fc.weight", "fc.bias"};
  Session plain = Opened(given, *device, {.policy = "superneurons"});
  CallersMemory memory(*device);
  for (const std::string& name : weights) memory.Add(name, plain.Values(name).value());
  Session session =
      Opened(given, *device, {.policy = "superneurons"}, {.external = memory.tensors()});
  const Batch batch = MakeBatch(3);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  const std::vector<NamedTensor> outputs = session.Forward(feeds).value();
  CHECK(SameBits(outputs[0].values, plain.Forward(feeds).value()[0].values));
  const Feeds gradients = {{.name = outputs[0].name, .floats = outputs[0].values}};
  REQUIRE(session.Backward(gradients).ok());
  REQUIRE(plain.Backward(gradients).ok());
  for (const std::string& name : weights)
    CHECK(SameBits(memory.Read(name), plain.Values(name).value()));
  for (const PlanTensor& tensor : plain.plan().tensors) {
    if (tensor.role != Role::kState) continue;
    const absl::Status refused =
        CreateSession(given, *device, {}, {.homes = {{tensor.name, Home::kHost}}}).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(refused.message().find("cannot be on the host: forward changes it") !=
          std::string_view::npos);
  }
}

TEST_CASE("a step that is given up leaves external parameters, and what comes next, as they were") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    const GivenLosses losses(BlockNet({.dtype = dtype, .batch_norm = true}));
    for (const std::string policy : {"liveness", "superneurons"}) {
      CAPTURE(Name(dtype));
      CAPTURE(policy);
      Session steady = Opened(losses.net(), *device, {.policy = "keep-all"});
      Pair pair(losses.net(), *device, {.external = IsFp32}, {.policy = policy});
      for (const uint64_t step : {0, 1, 2}) {
        TrainGivenUp(pair, losses, MakeBatch(step + 10));
        const Batch batch = MakeBatch(step);
        for (Session* session : {&steady, &pair.plain, &*pair.homes})
          losses.Step(*session, pause_test::FeedsOf(batch));
        pair.CheckSame();
        CHECK(pair.homes->step() == steady.step());
        if (step == 0)
          REQUIRE(pair.homes->SetBudget(pair.homes->planning().minimum_budget_bytes).ok());
      }
      // Running statistics have those of the steps that were given up, too.
      for (const ExternalTensor& one : pair.options.external) {
        CAPTURE(one.tensor);
        const bool is_same =
            SameBits(pair.memory.Read(one.tensor), steady.Values(one.tensor).value());
        CHECK(is_same == !one.tensor.starts_with("bn1.running_"));
      }
    }
  }
}

TEST_CASE("a fp16 step that is skipped restores external states, also after one that is given up") {
  const auto device = OpenCpu();
  const GivenLosses losses(BlockNet({.dtype = DType::kFp16, .batch_norm = true}));
  Pair pair(losses.net(), *device, {.external = IsFp32}, {.policy = "superneurons"});
  const Batch batch = MakeBatch(1);
  const Feeds feeds = losses.FeedsOf(pause_test::FeedsOf(batch));
  const std::vector<float> infinite(32, std::numeric_limits<float>::infinity());
  for (int round = 0; round < 2; ++round) {
    TrainGivenUp(pair, losses, MakeBatch(2));
    const std::map<std::string, std::vector<float>> before = ExternalValues(pair);
    for (Session* session : {&pair.plain, &*pair.homes}) {
      REQUIRE(session->Forward(feeds).ok());
      CHECK(session->Backward({{.name = "fc", .floats = infinite}})->skipped);
    }
    for (const auto& [tensor, values] : before) {
      const std::string& name = tensor;
      CAPTURE(name);
      CHECK(SameBits(pair.memory.Read(name), values) == (name != "loss_scale"));
    }
    pair.CheckSame();
    for (Session* session : {&pair.plain, &*pair.homes})
      losses.Step(*session, pause_test::FeedsOf(batch));
    pair.CheckSame();
  }
}

TEST_CASE("a batch that is given up adds nothing to external sums of gradients") {
  const auto device = OpenCpu();
  const GivenLosses losses(BlockNet({.batch_norm = true}));
  Pair pair(losses.net(), *device, {.external = IsFp32}, {.policy = "superneurons"},
            {.accumulate = 2});
  for (const uint64_t index : {0, 1, 2, 3}) {
    TrainGivenUp(pair, losses, MakeBatch(index + 10));
    const Batch batch = MakeBatch(index);
    for (Session* session : {&pair.plain, &*pair.homes}) {
      losses.Step(*session, pause_test::FeedsOf(batch), /*batches=*/2);
      if (index % 2 == 1) REQUIRE(session->Update().ok());
    }
    pair.CheckSame();
  }
}

}  // namespace
}  // namespace neap::homes_test
