// The engines and kernels of the CUDA backend, and the requests that it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/step/signature_text.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "tests/gpu_test.h"
#include "tests/layers/harness.h"

namespace neap::testing {
namespace {

size_t CountRelu(const std::vector<Engine>& engines) {
  return static_cast<size_t>(std::count_if(engines.begin(), engines.end(),
                                           [](const Engine& e) { return e.computes_relu; }));
}

void CompareLists(const StepSignature& signature, const std::vector<Engine>& there,
                  const std::vector<Engine>& absent) {
  CAPTURE(SignatureText(signature));
  CHECK(there.front().id == absent.front().id);
  CHECK(CountRelu(there) == CountRelu(absent));
  size_t common = 0;
  for (const Engine& engine : there) {
    for (const Engine& other : absent) common += engine.id == other.id ? 1 : 0;
  }
  MESSAGE(SignatureText(signature), ": ", there.size(), " engines there, ", absent.size(),
          " described, ", common, " of them the same");
  CHECK(common * 4 >= there.size() * 3);
}

// cuDNN's lists for a description and for the GPU differ in details (the workspace of engines that
// choose their split by occupancy, an engine or two), so plans are made again on the GPU.
TEST_CASE("an H200 recommends the convolution engines that its description does") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const std::string& name = gpu->description().name;
  if (name != "NVIDIA H200") return SkipCase("no H200: " + name);
  const std::unique_ptr<EngineCatalog> described =
      MakeCudnnCatalog(CudnnDeviceProperties(DescribedDevice("h200").value()).value()).value();
  const Convolution conv = {.out_channels = 64, .kernel = 3, .padding = 1};
  for (const Layer& layer : {Layer(conv), Layer(FusedConvolution{conv})}) {
    for (DType dtype : {DType::kFp32, DType::kTf32, DType::kBf16}) {
      const TensorSpec x = {{32, 64, 56, 56}, dtype, Layout::kChannelsLast};
      const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
      for (const StepSpec& step : spec.steps) {
        const StepSignature signature =
            SignatureOf(step, {.layer = layer, .spec = spec, .inputs = {x}});
        CompareLists(signature, gpu->backend().Engines(signature).value(),
                     described->Engines(signature).value());
      }
    }
  }
}

TEST_CASE("the CUDA backend names the dtype that it has no kernel for, and unknown engines") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const std::vector<TensorSpec> inputs = {{.shape = {1, 4, 8, 8}}};
  const LayerSpec spec = BatchNorm{}.Specify({.inputs = inputs}).value();
  StepSignature signature =
      SignatureOf(spec.steps[0], {.layer = BatchNorm{}, .spec = spec, .inputs = inputs});
  CHECK(gpu->backend().Engines(signature).ok());
  CHECK(absl::IsNotFound(gpu->backend().MakeKernel(signature, "no such engine").status()));
  for (OperandSpec& operand : signature.operands) {
    if (operand.operand == operands::Param(0)) operand.tensor.dtype = DType::kBf16;
  }
  CHECK(absl::IsUnimplemented(gpu->backend().Engines(signature).status()));
}

TEST_CASE("a kernel refuses less workspace than its engine listed") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const TensorSpec x = {{2, 2, 8, 8}};
  const LayerSpec spec = BatchNorm{}.Specify({.inputs = {x}}).value();
  const StepSignature signature =
      SignatureOf(spec.steps[0], {.layer = BatchNorm{}, .spec = spec, .inputs = {x}});
  const Engine engine = gpu->backend().Engines(signature).value().front();
  REQUIRE(engine.workspace_bytes > 0);
  const std::unique_ptr<Kernel> kernel = gpu->backend().MakeKernel(signature, engine.id).value();
  const std::vector<void*> operands(signature.operands.size(), nullptr);
  CHECK(absl::IsInternal(
      kernel->Run({.operands = operands, .workspace_bytes = engine.workspace_bytes - 1})));
}

}  // namespace
}  // namespace neap::testing
