// Compares convolutions in parts with undivided ones, on the CPU.
#include "neap/core/step/divided_kernel.h"

#include <doctest/doctest.h>

#include <map>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "tests/layers/conformance.h"
#include "tests/layers/divided_cases.h"

namespace neap::testing {
namespace {

StepSignature WeightGradient(const TensorSpec& x) {
  return SignatureOf(Convolution{.out_channels = 5, .kernel = 3}, Phase::kBackwardParams, {x})
      .value();
}

bool IsSum(const OperandSpec& operand) {
  return operand.operand.slot == Slot::kParamGrad && operand.access == Access::kAccumulate;
}

// A kernel that writes gradients to its own memory, and adds them to the operands.
class AddingKernel final : public Kernel {
 public:
  AddingKernel(std::unique_ptr<Kernel> kernel, const StepSignature& signature)
      : kernel_(std::move(kernel)) {
    for (size_t i = 0; i < signature.operands.size(); ++i) {
      if (!IsSum(signature.operands[i])) continue;
      sums_[i].resize(static_cast<size_t>(signature.operands[i].tensor.elements()));
    }
  }
  absl::Status Run(const KernelArgs& args) override {
    std::vector<void*> operands(args.operands.begin(), args.operands.end());
    for (auto& [i, values] : sums_) operands[i] = values.data();
    RETURN_IF_ERROR(kernel_->Run({operands, args.workspace, args.workspace_bytes}));
    for (const auto& [i, values] : sums_) {
      auto* const sum = static_cast<float*>(args.operands[i]);
      for (size_t k = 0; k < values.size(); ++k) sum[k] += values[k];
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::map<size_t, std::vector<float>> sums_;  // by operand
};

// The CPU's engines, extended to add by themselves.
class AddingBackend final : public Backend {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return cpu_->Engines(Writing(signature));
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    additions += signature.phase == Phase::kAddGradients ? 1 : 0;
    adding += AddsToGradients(signature) ? 1 : 0;
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, cpu_->MakeKernel(Writing(signature), engine));
    return std::make_unique<AddingKernel>(std::move(kernel), signature);
  }
  std::string Versions() const override { return ""; }

  int additions = 0;  // number of addition kernels
  int adding = 0;     // number of kernels that add by themselves

 private:
  static StepSignature Writing(StepSignature signature) {
    for (OperandSpec& operand : signature.operands) {
      if (IsSum(operand)) operand.access = Access::kWrite;
    }
    return signature;
  }
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend();
};

TEST_CASE("parts whose engines add have the same gradients, and no additions") {
  AddingBackend backend;
  const DividedResult result =
      RunDividedConvolutions(backend, HostAccess(), {.cases = 60, .seed = 8});
  for (const std::string& failure : result.failures) FAIL_CHECK(failure);
  CHECK(result.adding > 0);
  const StepSignature step = WeightGradient({{8, 4, 6, 6}});
  const Engine engine = backend.Engines(WithBatch(step, 4))->front();
  backend.additions = 0;
  CHECK(MakeDividedKernel(backend, step, {{engine.id, 4}, {engine.id, 4, true}},
                          engine.workspace_bytes)
            .ok());
  CHECK(backend.additions == 0);
  CHECK(MakeDividedKernel(backend, step, {{engine.id, 4}, {engine.id, 4}}, kMiB).ok());
  CHECK(backend.additions == 2);  // weight and bias
  // If the whole step accumulates, its first part does too; scratch memory is written.
  backend.adding = 0;
  CHECK(MakeDividedKernel(backend, AddingSignature(step), {{engine.id, 4}, {engine.id, 4}}, kMiB)
            .ok());
  CHECK(backend.adding == 1);
}

TEST_CASE("gradients are compared relative to their own magnitude, however small it is") {
  CHECK(!Difference({1e-6, 0}, {2e-6, 0}, 1e-5, /*least_scale=*/0).empty());
  CHECK(Difference({1e-6, 0}, {1e-6, 1e-12}, 1e-5, /*least_scale=*/0).empty());
}

// Excludes GEMM, and Winograd with many channels, which split sums by the size of the whole
// problem.
bool TreatsImagesAlike(const Engine& engine) {
  return engine.notes != "winograd" && engine.id.find("gemm") == std::string::npos;
}

void CheckRandomConvolutions(DividedOptions options) {
  options.most_engines = 64;
  options.treats_images_alike = TreatsImagesAlike;
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const DividedResult result = RunDividedConvolutions(*backend, HostAccess(), options);
  for (const std::string& failure : result.failures) FAIL_CHECK(failure);
  CHECK(result.writing > 0);
  CHECK(result.adding == 0);  // no engine of the CPU's does
}

TEST_CASE("random convolutions in random parts have the undivided bits, and their gradients") {
  CheckRandomConvolutions({.cases = 60, .seed = 7});
  CheckRandomConvolutions({.cases = 20, .seed = 8, .only_3x3 = true});
  CheckRandomConvolutions({.cases = 20, .seed = 9, .axes = 3});
}

TEST_CASE("random convolutions of 16-bit tensors in random parts have the undivided bits too") {
  for (const DType dtype : {DType::kBf16, DType::kFp16})
    CheckRandomConvolutions({.cases = 20, .seed = 10, .dtype = dtype});
}

TEST_CASE("random convolutions of many channels in random parts have the undivided bits too") {
  const auto is_fast = [](const Engine& engine) { return engine.id != "ref:any"; };
  CheckRandomConvolutions(
      {.cases = 10, .seed = 9, .most_channels = 160, .only_3x3 = true, .is_tried = is_fast});
}

TEST_CASE("the workspace has a part's gradients before its engine's workspace") {
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

TEST_CASE("parts begin at aligned addresses of the operands") {
  // 3 x 5 x 5 floats are 300 bytes: every fourth image begins at a multiple of 16.
  CHECK(BatchGranularity(WeightGradient({{8, 3, 5, 5}})) == 4);
  CHECK(BatchGranularity(WeightGradient({{8, 4, 6, 6}})) == 1);
}

TEST_CASE("divisions that are impossible are refused") {
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
  CHECK(refused(step, {{engine, 4, true}, {engine, 4}}) == absl::StatusCode::kInvalidArgument);
  const absl::StatusCode none_adds = refused(step, {{engine, 4}, {engine, 4, true}});
  CHECK(none_adds == absl::StatusCode::kUnimplemented);  // of the CPU's
  CHECK(refused(AdditionSignature({{8}}), {{"neap", 8}}) == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace neap::testing
