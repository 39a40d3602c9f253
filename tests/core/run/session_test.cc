#include "neap/core/run/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "neap/layers/catalog/engine_cache.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/guarded_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// The CPU's backend, except that the engine which it recommends for a convolution's forward step
// cannot be built. Counts the kernels that it makes for such steps.
class FaultyBackend final : public Backend {
 public:
  explicit FaultyBackend(Backend& backend) : backend_(backend) {}

  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return engines_.Get(signature, [this](const StepSignature& s) { return backend_.Engines(s); });
  }
  std::string Versions() const override { return backend_.Versions(); }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    if (signature.layer.type() == Convolution::kType && signature.phase == Phase::kForward) {
      if (engine == backend_.Engines(signature)->front().id) {
        ++refused_;
        return engines_.Withdraw(signature, engine, absl::InternalError("refused by the test"));
      }
      ++made_;
    }
    return backend_.MakeKernel(signature, engine);
  }

  int refused() const { return refused_; }
  int made() const { return made_; }

 private:
  Backend& backend_;
  EngineCache engines_;
  int refused_ = 0;
  int made_ = 0;
};

}  // namespace

TEST_CASE("engines that cannot be built are planned around, and equal steps share a kernel") {
  Graph net({.name = "chain", .batch = 8});
  std::string x = net.Input({3, 8, 8});
  for (const char* i : {"1", "2", "3"}) {
    x = net.Add(std::string("conv") + i,
                Convolution{.out_channels = 3, .kernel = 3, .padding = 1, .bias = false}, {x});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  const auto cpu = OpenCpu();
  GuardedDevice device(*cpu);
  FaultyBackend backend(cpu->backend());
  device.Replace(backend);
  absl::StatusOr<Session> session = CreateSession(net, device, {});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  CHECK(backend.refused() == 2);   // training's signature, then that of inference
  CHECK(backend.made() == 2 + 1);  // training's again, as inference's was refused
  CHECK(std::isfinite(Train(*session, 2)));
  CHECK(session->SetBudget(session->planning().minimum_budget_bytes).ok());
  CHECK(backend.refused() == 2);
}

TEST_CASE("a step without a learning rate leaves running variances near the 1 where they begin") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const Graph net = SmallNet(Layout::kChannelsFirst, /*with_block=*/true, dtype);
    Session session = CreateSession(net, *device, {}, {.learning_rate = {.base = 0}}).value();
    const std::vector<float> first = *session.Values("bn1.running_var");
    CHECK(std::all_of(first.begin(), first.end(), [](float v) { return v == 1; }));
    Train(session, 1);
    const std::vector<float> second = *session.Values("bn1.running_var");
    CHECK(std::all_of(second.begin(), second.end(), [](float v) { return v > 0.9F; }));
  }
}

TEST_CASE("training options outside their range are refused, and their field is named") {
  const auto device = OpenCpu();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto refused = [&](const TrainingOptions& training, const std::string& field) {
    CAPTURE(field);
    const absl::Status status = CreateSession(SmallNet(), *device, {}, training).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find(field) != std::string::npos);
  };
  refused({.optimizer = {.momentum = nan}}, "momentum nan");
  refused({.optimizer = {.weight_decay = -1}}, "weight_decay -1");
  refused({.learning_rate = {.base = nan}}, "base nan");
  refused({.learning_rate = {.base = -0.1F}}, "base -0.1");
  refused({.learning_rate = {.base = std::numeric_limits<float>::infinity()}}, "base inf");
  refused({.learning_rate = {.factor = nan}}, "factor nan");
  refused({.learning_rate = {.warmup_steps = -1}}, "warmup_steps -1");
  refused({.learning_rate = {.period_steps = -5}}, "period_steps -5");
}

TEST_CASE("a label that is not a class is refused with its image, and training continues") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Session steady = MakeSession(*device, {});
  Train(session, 1);
  for (const int32_t label : {4, -2, std::numeric_limits<int32_t>::min()}) {
    Batch batch = MakeBatch(1);
    batch.labels[5] = label;
    for (const absl::Status& status :
         {session.TrainStep(batch).status(), session.Begin(batch), session.Evaluate(batch).status(),
          session.TimeStep(batch).status()}) {
      CHECK(absl::IsInvalidArgument(status));
      CHECK(std::string(status.message()) == "the batch labels image 5 with " +
                                                 std::to_string(label) +
                                                 "; the network has 4 classes, from 0");
    }
  }
  Train(session, 1);
  Train(steady, 2);
  CheckSameState(session, steady);
}

TEST_CASE("a small network learns, in both layouts, and they agree") {
  const auto device = OpenCpu();
  Session nchw = MakeSession(*device, {}, {.learning_rate = {.base = 0.05F}});
  Session nhwc =
      MakeSession(*device, {}, {.learning_rate = {.base = 0.05F}}, Layout::kChannelsLast);
  const float first = Train(nchw, 1);
  const float first_nhwc = Train(nhwc, 1);
  CHECK(
      first ==
      doctest::Approx(first_nhwc).epsilon(0.25));  // dropout masks differ: they follow memory order
  CHECK(Train(nchw, 60) < 0.3F * first);
  CHECK(Train(nhwc, 60) < 0.3F * first_nhwc);
  const absl::StatusOr<StepResult> evaluated = nchw.Evaluate(MakeBatch(1000));
  REQUIRE(evaluated.ok());
  CHECK(evaluated->correct == 8);
}

TEST_CASE("the measured peak is the predicted peak, and no byte outside the arena is touched") {
  const auto cpu = OpenCpu();
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, {});
  Train(session, 2);
  const MemoryUse use = session.memory();
  CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
  CHECK(use.arena_bytes == use.predicted_peak_bytes);
  CHECK(device.GuardsIntact());
  // The pattern that filled the arena at first is gone from its highest block.
  CHECK(device.HighestTouchedByte() > use.predicted_peak_bytes - kBlockBytes);
}

TEST_CASE("no memory is allocated after the first step") {
  const auto cpu = OpenCpu();
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, {});
  Train(session, 1);
  const int allocations = device.allocations();
  Train(session, 5);
  CHECK(device.allocations() == allocations);
}

TEST_CASE("every policy, placement and in-place setting trains to the same bits") {
  const auto device = OpenCpu();
  Session reference = MakeSession(*device, {.policy = "keep-all", .in_place = false});
  Train(reference, 4);
  for (const char* policy : {"keep-all", "liveness"}) {
    for (const PlacementMethod placement : kPlacementMethods) {
      for (bool in_place : {false, true}) {
        CAPTURE(policy);
        CAPTURE(std::string(Name(placement)));
        CAPTURE(in_place);
        Session session =
            MakeSession(*device, {.policy = policy, .placement = placement, .in_place = in_place});
        Train(session, 4);
        CheckSameState(reference, session);
      }
    }
  }
}

TEST_CASE("a peer with room for all, some or none of the offloads trains to the same bits") {
  const auto device = OpenCpu();
  Session reference = MakeSession(*device, {.policy = "keep-all", .in_place = false});
  Session host = MakeSession(*device, {.policy = "vdnn-all"});
  const int64_t need = host.plan().host_pool_bytes;
  CHECK(need > 2 * kBlockBytes);
  CHECK(host.plan().peer_pool_bytes == 0);
  Session some = MakeSession(*device, {.peer_budget_bytes = need / 2, .policy = "vdnn-all"});
  CHECK(some.plan().host_pool_bytes > 0);
  CHECK(some.plan().peer_pool_bytes > 0);
  CHECK(some.plan().peer_pool_bytes <= need / 2);
  Session all = MakeSession(
      *device, {.host_budget_bytes = 0, .peer_budget_bytes = need, .policy = "vdnn-all"});
  CHECK(all.plan().host_pool_bytes == 0);
  Train(reference, 4);
  for (Session* session : {&host, &some, &all}) {
    Train(*session, 4);
    CheckSameState(reference, *session);
  }
}

TEST_CASE("two steps in flight give what one at a time gives") {
  const auto device = OpenCpu();
  Session one = MakeSession(*device, {});
  Session two = MakeSession(*device, {});
  std::vector<float> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(Train(one, 1));
  REQUIRE(two.Begin(MakeBatch(0)).ok());
  for (uint64_t i = 1; i < 4; ++i) {
    REQUIRE(two.Begin(MakeBatch(i)).ok());
    CHECK(two.Begin(MakeBatch(i)).code() == absl::StatusCode::kFailedPrecondition);
    const absl::StatusOr<StepResult> result = two.Finish();
    REQUIRE(result.ok());
    CHECK(result->step == static_cast<int64_t>(i) - 1);
    CHECK(result->loss == losses[i - 1]);
  }
  CHECK(two.Save("unused").code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(two.Finish().ok());
  CHECK(two.Finish().status().code() == absl::StatusCode::kFailedPrecondition);
  CheckSameState(one, two);
}

TEST_CASE("a session resumed from a checkpoint continues with the same bits") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("checkpoint.safetensors");
  Session whole = MakeSession(*device, {}, {.seed = 7});
  Train(whole, 3);
  REQUIRE(whole.Save(path).ok());
  Train(whole, 3);
  Session resumed = MakeSession(*device, {}, {.seed = 8});
  REQUIRE(resumed.Load(path).ok());
  CHECK(resumed.step() == 3);
  Train(resumed, 3);
  CheckSameState(whole, resumed);
}

TEST_CASE("a file of weights starts a new run, in either layout") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("weights.safetensors");
  Session from = MakeSession(*device, {});
  Train(from, 3);
  REQUIRE(from.SaveWeights(path).ok());
  Session to = MakeSession(*device, {}, {.seed = 5}, Layout::kChannelsLast);
  Train(to, 1);
  REQUIRE(to.Load(path).ok());
  CHECK(to.step() == 0);
  CHECK(SameBits(*from.Values("fc.weight"), *to.Values("fc.weight")));
  CHECK(SameBits(*from.Values("bn1.running_var"), *to.Values("bn1.running_var")));
  const std::vector<float> momentum = *to.Values("conv1.weight.momentum");
  CHECK(std::all_of(momentum.begin(), momentum.end(), [](float v) { return v == 0; }));
}

TEST_CASE("a checkpoint of another network is refused and the session left as it was") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("other.safetensors");
  Graph other({.name = "other", .batch = 8});
  other.Loss(other.Add("fc", FullyConnected{.out_features = 5}, {other.Input({3, 8, 8})}),
             SoftmaxCrossEntropy{});
  absl::StatusOr<Session> other_session = CreateSession(other, *device, {});
  REQUIRE(other_session.ok());
  REQUIRE(other_session->Save(path).ok());
  Session session = MakeSession(*device, {});
  Session untouched = MakeSession(*device, {});
  const absl::Status status = session.Load(path);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CheckSameState(session, untouched);
}

TEST_CASE("SetBudget in the middle of training changes the arena but not the training") {
  const auto device = OpenCpu();
  Session steady = MakeSession(*device, {.policy = "liveness"});
  Session changed = MakeSession(*device, {.policy = "liveness"});
  Train(steady, 4);
  Train(changed, 2);
  const int64_t minimum = changed.planning().minimum_budget_bytes;
  const absl::Status refused = changed.SetBudget(minimum - kBlockBytes);
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(refused.message()).find(std::to_string(minimum)) != std::string::npos);
  Train(changed, 1);
  REQUIRE(changed.SetBudget(minimum).ok());
  CHECK(changed.memory().arena_bytes == minimum);
  Train(changed, 1);
  CheckSameState(steady, changed);
}

TEST_CASE("a session whose new arena the device refuses is unchanged") {
  const auto cpu = OpenCpu();
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, {});
  Session steady = MakeSession(*cpu, {});
  Train(session, 2);
  Train(steady, 3);
  device.RefuseArenas(1);
  const absl::Status status = session.SetBudget(kUnlimited);
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  Train(session, 1);
  CheckSameState(steady, session);
}

TEST_CASE("a session that has lost its arena continues once a budget fits the device") {
  const auto cpu = OpenCpu();
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, {});
  Session steady = MakeSession(*cpu, {});
  Train(session, 2);
  Train(steady, 3);
  device.RefuseArenas(2);
  CHECK(session.SetBudget(kUnlimited).code() == absl::StatusCode::kResourceExhausted);
  CHECK(session.TrainStep(MakeBatch(2)).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(session.Values("fc.weight").status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(session.memory().measured_peak_bytes == 0);
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  Train(session, 1);
  CheckSameState(steady, session);
}

TEST_CASE("a session without a planner is refused") {
  const auto device = OpenCpu();
  CHECK(Session::Create(SmallNet(), *device, nullptr).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a batch of the wrong size is refused") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Batch batch = MakeBatch(0);
  batch.labels.pop_back();
  CHECK(session.TrainStep(batch).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(session.step() == 0);
}

}  // namespace neap
