// Convolutions in parts against the undivided ones, on the CPU.
#include <doctest/doctest.h>

#include "neap/core/units.h"
#include "neap/layers/conv/divided_kernel.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/signature_text.h"
#include "neap/layers/step_signature.h"
#include "tests/layers/divided_cases.h"

namespace neap::testing {
namespace {

StepSignature WeightGradient(const TensorSpec& x) {
  return SignatureOf(Convolution{.out_channels = 5, .kernel = 3}, Phase::kBackwardParams, {x})
      .value();
}

TEST_CASE("random convolutions in random parts have the undivided bits, and their gradients") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const std::vector<std::string> failures =
      DividedConvolutionFailures(*backend, HostAccess(), {.cases = 60, .seed = 7});
  for (const std::string& failure : failures) MESSAGE(failure);
  CHECK(failures.empty());
}

TEST_CASE("workspace holds a part's gradients before what its engine wants") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const StepSignature step = WeightGradient({{8, 4, 6, 6}});
  CHECK(DivisionScratchBytes(step) == RoundUp(5 * 4 * 3 * 3 * 4, 256) + 256);  // weight, bias
  const Engine engine = backend->Engines(WithBatch(step, 4))->front();
  const std::vector<EngineUse> halves = {{engine.id, 4}, {engine.id, 4}};
  const int64_t needed = DivisionScratchBytes(step) + engine.workspace_bytes;
  CHECK(MakeDividedKernel(*backend, step, halves, needed).ok());
  if (engine.workspace_bytes > 0) {
    CHECK(MakeDividedKernel(*backend, step, halves, needed - 1).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("parts begin where operands are aligned") {
  // 3 x 5 x 5 floats are 300 bytes: every fourth image begins at a multiple of 16.
  CHECK(BatchGranularity(WeightGradient({{8, 3, 5, 5}})) == 4);
  CHECK(BatchGranularity(WeightGradient({{8, 4, 6, 6}})) == 1);
}

TEST_CASE("what cannot be divided is refused") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const StepSignature step = WeightGradient({{8, 3, 5, 5}});
  const std::string engine = backend->Engines(WithBatch(step, 4))->front().id;
  const auto refused = [&](const StepSignature& signature, std::vector<EngineUse> parts) {
    return MakeDividedKernel(*backend, signature, parts, 64 * kMiB).status().code();
  };
  CHECK(refused(step, {{engine, 4}, {engine, 4}}) == absl::StatusCode::kOk);
  CHECK(refused(step, {{engine, 4}, {engine, 3}}) == absl::StatusCode::kInvalidArgument);
  CHECK(refused(step, {{engine, 3}, {engine, 5}}) == absl::StatusCode::kInvalidArgument);
  CHECK(refused(step, {{engine, 8}, {engine, 0}}) == absl::StatusCode::kInvalidArgument);
  CHECK(refused(step, {{"no such engine", 4}, {engine, 4}}) == absl::StatusCode::kNotFound);
  CHECK(refused(AdditionSignature({{8}}), {{"neap", 8}}) == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace neap::testing
