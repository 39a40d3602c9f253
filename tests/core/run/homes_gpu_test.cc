// On a GPU, training with external parameters and with parameters on the host has the bits of
// training without.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/run/session.h"
#include "tests/core/run/homes_pair.h"
#include "tests/gpu_test.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::homes_test {
namespace {

constexpr std::pair<DType, Layout> kOnGpu[] = {{DType::kFp32, Layout::kChannelsFirst},
                                               {DType::kFp32, Layout::kChannelsLast},
                                               {DType::kBf16, Layout::kChannelsLast}};
constexpr const char* kGpuPolicies[] = {"liveness", "superneurons", "auto"};

// Parameters of the network's type; those that have a master are copies of it.
bool IsParam(const PlanTensor& tensor) {
  return tensor.role == Role::kParam || tensor.role == Role::kMaster;
}

// Enough steps to enqueue one, record another and replay the rest; evaluation between them; and the
// same in the smallest budget.
void TrainLong(Pair& pair) {
  for (const bool tight : {false, true}) {
    CAPTURE(tight);
    if (tight) REQUIRE(pair.homes->SetBudget(pair.homes->planning().minimum_budget_bytes).ok());
    for (int round = 0; round < 3; ++round) {
      pair.TrainBoth(4);
      CHECK(pair.homes->Evaluate(MakeBatch(9))->loss == pair.plain.Evaluate(MakeBatch(9))->loss);
    }
    if (pair.options.records_iterations) {
      const absl::Status recording = pair.homes->recording();
      CHECK_MESSAGE(recording.ok(), recording.ToString());
    }
    const MemoryUse use = pair.homes->memory();
    CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
  }
}

void CheckOnGpu(Device& gpu, const Chosen& chosen, const TrainingOptions& training = {}) {
  for (const auto& [dtype, layout] : kOnGpu) {
    for (const std::string policy : kGpuPolicies) {
      CAPTURE(Name(dtype));
      CAPTURE(Name(layout));
      CAPTURE(policy);
      Pair pair(SmallNet(layout, /*with_block=*/true, dtype), gpu, chosen,
                {.policy = policy, .strict = true}, training);
      TrainLong(pair);
    }
  }
}

TEST_CASE("on a GPU, external parameters that are aligned to 16 bytes train to the same bits") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  CheckOnGpu(*gpu, {.external = IsWeight});
}

TEST_CASE("on a GPU, all fp32 tensors may be external, in iterations that are not recorded, too") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  CheckOnGpu(*gpu, {.external = IsFp32}, {.optimizer = {.clip_norm = 0.5F}});
  CheckOnGpu(*gpu, {.external = IsFp32},
             {.optimizer = {.rule = Optimizer::Rule::kAdamW, .average_decay = 0.9F},
              .records_iterations = false});
}

TEST_CASE("on a GPU, parameters on the host train to the same bits, beside external ones, too") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  CheckOnGpu(*gpu, {.on_host = IsParam});
  CheckOnGpu(*gpu, {.external = IsFp32, .on_host = IsLast});
}

TEST_CASE("on a GPU, recorded iterations read what the caller wrote to external parameters") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  const ScratchDirectory scratch;
  const std::string file = scratch.File("model.safetensors");
  for (const auto& [dtype, layout] : kOnGpu) {
    CAPTURE(Name(dtype));
    CAPTURE(Name(layout));
    Pair pair(SmallNet(layout, /*with_block=*/true, dtype), *gpu, {.external = IsWeight},
              {.policy = "superneurons", .strict = true});
    pair.TrainBoth(6);
    for (const float factor : {0.5F, 1.25F}) {
      for (const ExternalTensor& one : pair.options.external) {
        std::vector<float> values = pair.memory.Read(one.tensor);
        for (float& value : values) value *= factor;
        pair.memory.Write(one.tensor, values);
        CHECK(SameBits(pair.homes->Values(one.tensor).value(), values));
      }
      REQUIRE(pair.homes->Refresh().ok());
      CHECK(pair.homes->Evaluate(MakeBatch(9))->loss != pair.plain.Evaluate(MakeBatch(9))->loss);
      // The other one gets the values from a file, and the copies with them.
      REQUIRE(pair.homes->Save(file).ok());
      REQUIRE(pair.plain.Load(file).ok());
      CHECK(pair.homes->Evaluate(MakeBatch(9))->loss == pair.plain.Evaluate(MakeBatch(9))->loss);
      pair.CheckSame();
      pair.TrainBoth(6);
      CHECK(pair.homes->recording().ok());
    }
    // Load() writes where recorded iterations read.
    REQUIRE(pair.homes->Load(file).ok());
    REQUIRE(pair.plain.Load(file).ok());
    pair.TrainBoth(3);
  }
}

}  // namespace
}  // namespace neap::homes_test
