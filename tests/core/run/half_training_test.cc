// Training in 16 bits on the CPU: masters, files, and steps that are skipped.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "neap/core/base/float16.h"
#include "neap/core/step/loss_scale.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

using State = std::map<std::string, std::vector<float>>;

Session Open(Device& device, DType dtype, const PlannerOptions& planning = {},
             TrainingOptions training = {}) {
  absl::StatusOr<Session> session =
      CreateSession(SmallNet(Layout::kNchw, true, dtype), device, planning, training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

State StateOf(Session& session) {
  State state;
  for (const PlanTensor& tensor : session.plan().tensors) {
    if (IsPersistent(tensor.role) && tensor.name != "loss.metrics")
      state[tensor.name] = *session.Values(tensor.name);
  }
  return state;
}

// A batch so large that activations, and with them gradients, overflow in fp16.
Batch OverflowingBatch() {
  Batch batch = MakeBatch(1);
  for (float& value : batch.images) value *= 1e6F;
  return batch;
}

StepResult Step(Session& session, const Batch& batch) {
  REQUIRE(session.Begin(batch).ok());
  const absl::StatusOr<StepResult> result = session.Finish();
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  return *result;
}

template <typename T>
int CountDifferences(const std::vector<float>& copy, const std::vector<float>& master) {
  int different = 0;
  for (size_t i = 0; i < copy.size(); ++i)
    different += copy[i] == static_cast<float>(T(master[i])) ? 0 : 1;
  return different;
}

TEST_CASE("16-bit training lowers the loss, and weights stay the rounded masters") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    Session session = Open(*device, dtype);
    const float first = Step(session, MakeBatch(1)).loss;
    float last = first;
    for (int i = 0; i < 30; ++i) last = Step(session, MakeBatch(1)).loss;
    CHECK(last < 0.7F * first);
    const State state = StateOf(session);
    int copies = 0;
    for (const auto& [name, values] : state) {
      const std::string suffix = "." + std::string(Name(dtype));
      if (!name.ends_with(suffix)) continue;
      const std::vector<float>& master = state.at(name.substr(0, name.size() - suffix.size()));
      ++copies;
      CHECK((dtype == DType::kBf16 ? CountDifferences<Bf16>(values, master)
                                   : CountDifferences<Fp16>(values, master)) == 0);
    }
    CHECK(copies > 0);
  }
}

TEST_CASE("a step with an overflow changes nothing but the scale, whatever the plan") {
  const auto device = OpenCpu();
  std::vector<State> ends;
  for (const PlannerOptions& planning :
       {PlannerOptions{.policy = "keep-all"}, PlannerOptions{.policy = "superneurons"},
        Tight(*device), PlannerOptions{.policy = "chen"}}) {
    CAPTURE(planning.policy);
    PlannerOptions options = planning;
    if (options.budget_bytes != kUnlimited) {
      Session probe = Open(*device, DType::kFp16, {.policy = options.policy});
      options.budget_bytes = probe.planning().minimum_budget_bytes;
    }
    Session session = Open(*device, DType::kFp16, options);
    Train(session, 3);
    State before = StateOf(session);
    const std::vector<float> scale_before = before.at("loss_scale");
    const StepResult skipped = Step(session, OverflowingBatch());
    CHECK(skipped.skipped_steps == 1);
    CHECK(skipped.loss_scale == scale_before[0] / 2);
    State after = StateOf(session);
    CHECK(after.at("loss_scale") ==
          std::vector<float>{scale_before[0] / 2, 0, 0, scale_before[3] + 1});
    after["loss_scale"] = scale_before;
    CHECK(after == before);
    const StepResult next = Step(session, MakeBatch(2));
    CHECK(std::isfinite(next.loss));
    CHECK(next.skipped_steps == 1);
    ends.push_back(StateOf(session));
    CHECK(ends.back() != before);
  }
  for (const State& end : ends) CHECK(end == ends.front());
}

TEST_CASE("training resumes with the scale, to the same bits") {
  const ScratchDirectory scratch;
  const auto device = OpenCpu();
  const std::string path = scratch.File("half.safetensors");
  Session first = Open(*device, DType::kFp16);
  Train(first, 2);
  Step(first, OverflowingBatch());
  REQUIRE(first.Save(path).ok());
  Session second = Open(*device, DType::kFp16, {}, {.seed = 77});
  REQUIRE(second.Load(path).ok());
  CHECK(StateOf(second) == StateOf(first));
  for (Session* session : {&first, &second}) {
    const StepResult result = Step(*session, MakeBatch(5));
    CHECK(result.skipped_steps == 1);
    CHECK(result.loss_scale == LossScale::kInitial / 2);
  }
  CHECK(StateOf(second) == StateOf(first));
}

TEST_CASE("checkpoints of one type continue in another, with the masters' values") {
  const ScratchDirectory scratch;
  const auto device = OpenCpu();
  const std::string path = scratch.File("any.safetensors");
  for (const DType from : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    Session source = Open(*device, from);
    Train(source, 2);
    REQUIRE(source.Save(path).ok());
    for (const DType to : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      CAPTURE(Name(from));
      CAPTURE(Name(to));
      Session session = Open(*device, to, {}, {.seed = 9});
      const absl::Status loaded = session.Load(path);
      REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
      CHECK(session.step() == 2);
      for (const char* name : {"conv1.weight", "conv1.weight.momentum"})
        CHECK(*session.Values(name) == *source.Values(name));
      CHECK(std::isfinite(Step(session, MakeBatch(3)).loss));
    }
  }
}

TEST_CASE("files of weights may have 16 bits, and inference alone reads any of them") {
  const ScratchDirectory scratch;
  const auto device = OpenCpu();
  Session source = Open(*device, DType::kBf16);
  Train(source, 3);
  const std::string bf16 = scratch.File("bf16.safetensors");
  const std::string fp32 = scratch.File("fp32.safetensors");
  REQUIRE(source.SaveWeights(bf16, DType::kBf16).ok());
  REQUIRE(source.SaveWeights(fp32).ok());
  const absl::StatusOr<StepResult> want = source.Evaluate(MakeBatch(4));
  REQUIRE(want.ok());
  for (const std::string& path : {bf16, fp32}) {
    CAPTURE(path);
    Session session = Open(*device, DType::kBf16, {}, {.inference_only = true});
    const absl::Status loaded = session.Load(path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
    const absl::StatusOr<StepResult> got = session.Evaluate(MakeBatch(4));
    REQUIRE_MESSAGE(got.ok(), got.status().ToString());
    // In the file of 16 bits, biases and the parameters of batch norm have them, too.
    CHECK(got->loss == doctest::Approx(want->loss).epsilon(path == fp32 ? 1e-9 : 0.01));
  }
}

}  // namespace
}  // namespace neap
