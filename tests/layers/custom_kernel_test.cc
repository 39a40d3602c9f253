// Kernels that a program registers for custom layers, on the CPU and for a GPU that is not present.
#include "neap/layers/catalog/custom_kernel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/custom_layer/gelu.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/run/session.h"
#include "neap/core/step/specify.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/layers/gelu_checks.h"
#include "tests/layers/harness.h"
#include "tests/source_tree.h"

namespace neap::testing {
namespace {

using namespace operands;

const std::string kQuickGelu(QuickGelu::kType);

std::unique_ptr<CpuDevice> OpenCpu(std::vector<CustomKernel> kernels) {
  absl::StatusOr<std::unique_ptr<CpuDevice>> device =
      CpuDevice::Open({.kernels = std::move(kernels)});
  REQUIRE_MESSAGE(device.ok(), device.status().ToString());
  return *std::move(device);
}

absl::Status Nothing(const CustomRun&) { return absl::OkStatus(); }

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// y = w x, with one w for the whole tensor: a layer with a parameter.
struct Scale {
  static constexpr std::string_view kType = "scale";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    LayerSpec spec = {
        .output = context.inputs[0],
        .params = {
            {.name = "weight", .tensor = VectorSpec(1), .init = {Init::Kind::kConstant, 2.0F}}}};
    spec.steps.push_back({.reads = {X(), Param(0)}, .writes = {Y()}});
    if (context.mode == Mode::kInference) return spec;
    spec.steps.push_back(
        {.phase = Phase::kBackwardParams, .reads = {X(), Dy()}, .writes = {ParamGrad(0)}});
    spec.steps.push_back(
        {.phase = Phase::kBackwardData, .reads = {Dy(), Param(0)}, .writes = {Dx()}});
    return spec;
  }
  friend bool operator==(const Scale&, const Scale&) = default;
};

// to = w from.
CustomKernel ScaleKernel(Phase phase, Operand from, Operand to) {
  const auto run = [from, to](const CustomRun& step) {
    const float weight = *step.Get<float>(Param(0));
    for (int64_t i = 0; i < step.Elements(to); ++i)
      step.Get<float>(to)[i] = weight * step.Get<float>(from)[i];
    return absl::OkStatus();
  };
  return {.layer_type = "scale", .phase = phase, .run = run};
}

// dw = x . dy, a sum of products that it stores in its workspace.
absl::Status ScaleGradient(const CustomRun& step) {
  float* const products = step.Workspace<float>();
  for (int64_t i = 0; i < step.Elements(X()); ++i)
    products[i] = step.Get<float>(X())[i] * step.Get<float>(Dy())[i];
  float sum = 0;
  for (int64_t i = 0; i < step.Elements(X()); ++i) sum += products[i];
  *step.Get<float>(ParamGrad(0)) = sum;
  return absl::OkStatus();
}

std::vector<CustomKernel> ScaleKernels() {
  return {ScaleKernel(Phase::kForward, X(), Y()),
          ScaleKernel(Phase::kBackwardData, Dy(), Dx()),
          {.layer_type = "scale",
           .phase = Phase::kBackwardParams,
           .make = [](const StepSignature&) { return ScaleGradient; },
           .workspace_bytes =
               [](const StepSignature& signature) { return signature.Spec(X()).size_bytes(); },
           .engine = "products"}};
}

Graph ScaleNet() {
  Graph net({.name = "scale-net", .batch = 2});
  std::string x = net.Input({1, 2, 2});
  x = net.Add("scale", Scale{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 3}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

absl::Status CreateQuickGeluSession(Device& device, DType dtype = DType::kFp32) {
  return CreateSession(QuickGeluNet(dtype), device, {}).status();
}

float LossOfOneStep(Device& device, DType dtype) {
  absl::StatusOr<Session> session = CreateSession(QuickGeluNet(dtype), device, {});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const Batch batch = {.images = std::vector<float>(8 * 3 * 8 * 8, 0.5F),
                       .labels = std::vector<int32_t>(8, 1),
                       .size = 8};
  return session->TrainStep(batch).value();
}

}  // namespace

TEST_CASE("on the CPU the gradient of the example's GELU agrees with finite differences") {
  CheckQuickGeluGradient(*OpenCpu(CpuQuickGeluKernels()));
}

TEST_CASE("a network with a custom layer trains to the same bits with every policy") {
  CheckQuickGeluTrainsTheSameUnderEveryPolicy(*OpenCpu(CpuQuickGeluKernels()));
}

TEST_CASE("kernels that take 16 bits train a network in bf16, to the same bits with every policy") {
  const auto device = OpenCpu(CpuBf16QuickGeluKernels());
  CheckQuickGeluTrainsTheSameUnderEveryPolicy(*device, DType::kBf16);
  const auto fp32 = OpenCpu(CpuQuickGeluKernels());
  CHECK(LossOfOneStep(*device, DType::kBf16) ==
        doctest::Approx(LossOfOneStep(*fp32, DType::kFp32)).epsilon(0.01));
  const absl::Status refused = CreateQuickGeluSession(*fp32, DType::kBf16);
  CHECK(absl::IsUnimplemented(refused));
  CHECK(Says(refused, "does not take bf16 operands"));
}

TEST_CASE("a custom layer's parameter is updated, and its kernel's workspace is in the plan") {
  const auto device = OpenCpu(ScaleKernels());
  absl::StatusOr<Session> session = CreateSession(ScaleNet(), *device, {});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const Batch batch = {.images = {1, 2, 3, 4, 4, 3, 2, 1}, .labels = {0, 2}, .size = 2};
  CHECK(*session->Values("scale.weight") == std::vector<float>{2});
  REQUIRE(session->TrainStep(batch).ok());
  CHECK(*session->Values("scale.weight") != std::vector<float>{2});
  const std::vector<StepMemory> memory = MemoryPerStep(session->plan());
  const auto gradient = std::find_if(memory.begin(), memory.end(), [](const StepMemory& step) {
    return step.engine == "products";
  });
  REQUIRE(gradient != memory.end());
  CHECK(gradient->workspace_bytes >= 2 * 4 * 4);
}

TEST_CASE("a custom kernel uses only its operands and workspace, and refuses a smaller workspace") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(ScaleKernels()).value();
  const StepSignature step =
      neap::SignatureOf(Scale{}, Phase::kBackwardParams, {{{1, 1, 2, 2}}}).value();
  const absl::StatusOr<Values> results =
      RunStep(*backend, HostAccess(), step, {{X(), {1, 2, 3, 4}}, {Dy(), {1, 0, 2, -1}}});
  REQUIRE_MESSAGE(results.ok(), results.status().ToString());
  CHECK(results->at(ParamGrad(0)) == std::vector<double>{3});
  const std::unique_ptr<Kernel> kernel = backend->MakeKernel(step, "products").value();
  CHECK(absl::IsInternal(kernel->Run({.operands = {}, .workspace_bytes = 15})));
}

TEST_CASE("invalid kernels are refused when the device is opened") {
  const auto refused = [](std::vector<CustomKernel> kernels, const std::string& why) {
    CAPTURE(why);
    const absl::Status status = CpuDevice::Open({.kernels = std::move(kernels)}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(Says(status, why));
  };
  const CustomKernel forward = {.layer_type = kQuickGelu, .run = Nothing};
  refused({forward, forward}, "registered for quick_gelu forward: the step already has a kernel");
  refused({{.layer_type = "relu", .run = Nothing}}, "of type relu, which neap has");
  refused({{.layer_type = kQuickGelu, .phase = Phase::kUpdate, .run = Nothing}},
          "registered for quick_gelu update: layers have no such phase");
  refused({{.layer_type = "", .run = Nothing}}, "its layer_type is empty");
  refused({{.layer_type = kQuickGelu, .run = Nothing, .engine = ""}}, "its engine has no id");
  refused(
      {{.layer_type = kQuickGelu,
        .run = Nothing,
        .make = [](const StepSignature&) -> absl::StatusOr<CustomFunction> { return Nothing; }}},
      "it has both run and make");
}

TEST_CASE("a layer without a kernel is refused by name, with a hint at how to register one") {
  const auto device = OpenCpu({});
  const absl::Status status = CreateQuickGeluSession(*device);
  CHECK(absl::IsUnimplemented(status));
  CHECK(Says(status, "gelu1 forward: the CPU has no kernel for quick_gelu forward"));
  CHECK(Says(status, "layers/catalog/custom_kernel.h"));
  // If some steps have a kernel, the missing ones have the same error.
  const auto half = OpenCpu({CpuQuickGeluKernels()[0]});
  CHECK(Says(CreateQuickGeluSession(*half), "the CPU has no kernel for quick_gelu backward_data"));
}

TEST_CASE("a kernel that cannot be made fails the session with its step and its reason") {
  std::vector<CustomKernel> kernels = CpuQuickGeluKernels();
  kernels[1].run = nullptr;
  absl::Status status = CreateQuickGeluSession(*OpenCpu(kernels));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(Says(status, "registered for quick_gelu backward_data: it has neither run nor make"));
  kernels[1].make = [](const StepSignature&) -> absl::StatusOr<CustomFunction> {
    return absl::ResourceExhaustedError("no tables left");
  };
  status = CreateQuickGeluSession(*OpenCpu(kernels));
  CHECK(absl::IsResourceExhausted(status));
  CHECK(Says(status,
             "backward_data: the kernel registered for quick_gelu backward_data: no tables left"));
  kernels[1].make = [](const StepSignature&) { return CustomFunction(); };
  CHECK(absl::IsInternal(CreateQuickGeluSession(*OpenCpu(kernels))));
  kernels = CpuQuickGeluKernels();
  for (const int64_t bytes :
       {int64_t{-1}, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max() - 63,
        std::numeric_limits<int64_t>::min()}) {
    CAPTURE(bytes);
    kernels[0].workspace_bytes = [bytes](const StepSignature&) { return bytes; };
    status = CreateQuickGeluSession(*OpenCpu(kernels));
    CHECK(absl::IsInvalidArgument(status));
    CHECK(Says(status, "forward: the kernel registered for quick_gelu forward wants " +
                           std::to_string(bytes) + " bytes of workspace"));
  }
}

TEST_CASE("a run that fails ends the step with its layer's type and the reason") {
  int runs = 0;
  std::vector<CustomKernel> kernels = ScaleKernels();
  kernels[0].run = [&runs](const CustomRun&) {
    return ++runs < 3 ? absl::OkStatus() : absl::DataLossError("out of luck");
  };
  const auto device = OpenCpu(kernels);
  absl::StatusOr<Session> session = CreateSession(ScaleNet(), *device, {});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const Batch batch = {.images = std::vector<float>(8, 1.0F), .labels = {0, 2}, .size = 2};
  CHECK(session->TrainStep(batch).ok());
  CHECK(session->TrainStep(batch).ok());
  const absl::Status status = session->TrainStep(batch).status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(Says(status, "the kernel registered for scale forward: out of luck"));
}

TEST_CASE("a plan for an H200 uses custom kernels, and needs neither a GPU nor their functions") {
  const Program program = BuildProgram(QuickGeluNet(), {}).value();
  const DeviceDescription h200 = DescribedDevice("h200").value();
  std::vector<CustomKernel> kernels = {{.layer_type = kQuickGelu},
                                       {.layer_type = kQuickGelu, .phase = Phase::kBackwardData}};
  kernels[1].workspace_bytes = [](const StepSignature&) { return 1000; };
  const std::unique_ptr<EngineCatalog> catalog = DescribedCatalog("h200", kernels).value();
  const absl::StatusOr<PlanResult> result = MakePlan(program, {}, h200, *catalog);
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  int64_t steps = 0;
  for (const StepMemory& memory : MemoryPerStep(result->plan)) {
    const PlanStep& step = result->plan.steps[memory.step.index()];
    if (step.type != kQuickGelu) continue;
    ++steps;
    CHECK(memory.engine == "custom");
    CHECK((memory.workspace_bytes >= 1000) == (step.phase == Phase::kBackwardData));
  }
  CHECK(steps == 6);
  CHECK(absl::IsInvalidArgument(DescribedCatalog("h200", {kernels[0], kernels[0]}).status()));
}

TEST_CASE("an H200's catalog names the layer that it has no kernel for") {
  const bool with_cudnn = ListsEnginesOf(DescribedDevice("h200").value()).ok();
  const Program program = BuildProgram(QuickGeluNet(), {}).value();
  const std::unique_ptr<EngineCatalog> catalog = DescribedCatalog("h200").value();
  const absl::Status status =
      MakePlan(program, {}, DescribedDevice("h200").value(), *catalog).status();
  CHECK(status.ok() == !with_cudnn);  // without cuDNN every step has its one default engine
  if (!with_cudnn) return;
  CHECK(absl::IsUnimplemented(status));
  CHECK(Says(status, "gelu1 forward: CUDA has no kernel for quick_gelu forward"));
  CHECK(absl::IsInvalidArgument(
      DescribedCatalog("h200", {{.layer_type = "relu", .run = Nothing}}).status()));
}

namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(SourceTree() / path);
  REQUIRE_MESSAGE(file.good(), path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("every block of code in docs/own-layers.md is in the example, word for word") {
  std::string example;
  for (const char* file : {"gelu.h", "gelu.cc", "gelu_cuda.cc", "gelu.cu", "main.cc"})
    example += TextOf(std::string("examples/custom_layer/") + file);
  const std::string page = TextOf("docs/own-layers.md");
  const std::string open = "```cpp\n", close = "```\n";
  int blocks = 0;
  for (size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    const std::string block = page.substr(at, page.find(close, at) - at);
    INFO(block);
    CHECK(example.find(block) != std::string::npos);
    ++blocks;
  }
  CHECK(blocks >= 5);
}

}  // namespace neap::testing
