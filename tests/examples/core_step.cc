// The examples in the headers of core/step/, which must compile. See scripts/check_examples.py.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/program.h"
#include "neap/core/step/check_spec.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/engine_use.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/layer_traits.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/core/step/window.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"

namespace neap::header_examples::step {

// core/step/check_spec.h
void CheckReads(const TensorSpec& x) {
  LayerSpec spec = {.output = x, .steps = {{.reads = {operands::X(3)}}}};
  CheckSpec(spec, {.inputs = {x}}, /*is_loss=*/false).IgnoreError();  // "... reads input[3] ..."
}

// core/step/divided_kernel.h
absl::Status RunInParts(Backend& backend, const StepSignature& step,
                        absl::Span<void* const> operands, void* workspace,
                        int64_t workspace_bytes) {
  const EngineUse parts[] = {{"eng3_k2=0", 128}, {"eng3_k2=0", 128}};
  ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                   MakeDividedKernel(backend, step, parts, workspace_bytes));
  RETURN_IF_ERROR(kernel->Run({operands, workspace, workspace_bytes}));
  return absl::OkStatus();
}

// core/step/engine_use.h
void NameParts() {
  const std::vector<EngineUse> parts = {{"eng3_k2=0", 64}, {"eng3_k2=0", 64}, {"eng7", 32}};
  ToString(parts);  // "2 x 64 eng3_k2=0 + 32 eng7"
}

// core/step/layer_spec.h
void DeclareStep(const TensorSpec& x) {
  LayerSpec spec = {.output = x, .steps = {{.phase = Phase::kForward}}};
  spec.steps[0].reads = {{Slot::kInput, 0}};
  ToString(spec.steps[0].reads[0]);  // "input[0]"
}

// core/step/kernel.h
absl::Status RunKernel(Backend& backend, const TensorSpec& spec, void* x, void* y) {
  StepSignature relu = {
      .layer = Relu{},
      .phase = Phase::kForward,
      .operands = {{{Slot::kInput}, spec, Access::kRead}, {{Slot::kOutput}, spec, Access::kWrite}}};
  ASSIGN_OR_RETURN(std::vector<Engine> engines, backend.Engines(relu));
  ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, backend.MakeKernel(relu, engines.front().id));
  void* operands[] = {x, y};
  RETURN_IF_ERROR(kernel->Run({.operands = operands}));
  return absl::OkStatus();
}

// core/step/layer.h
namespace own_layer {
struct Relu {  // a definition is a plain struct ...
  static constexpr std::string_view kType = "relu";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Relu&, const Relu&) = default;
};

absl::Status SpecifyLayer(const TensorSpec& input_spec) {
  Layer layer = Relu{};  // ... held by value
  ASSIGN_OR_RETURN(LayerSpec spec, layer.Specify({.inputs = {input_spec}}));
  spec.steps[1].reads;  // backward: {output 0, output_grad 0}
  return absl::OkStatus();
}
}  // namespace own_layer

// core/step/layer_traits.h
void DeclareTraits(const TensorSpec& y, const ParamSpec& weight, const Program& program,
                   const Step& step) {
  LayerSpec spec = {.output = y, .params = {weight}};
  spec.traits = {.checkpoint = true, .hides_transfers = true, .divisible = true};
  program.layers[step.layer.index()].traits.checkpoint;  // how a planner reads them
}

// core/step/parameter_text.h
struct Crop {
  Extents size = 1;
  Extents offset = 0;
  std::string Parameters() const;
};

std::string Crop::Parameters() const {
  return ParameterText({{"size", size}, {"offset", offset}});  // "size=24x24 offset=4x4"
}

// core/step/signature_text.h
void CompareTexts(const StepSignature& signature) {
  const std::string operation = SignatureText(signature);
  const int64_t batch = BatchOf(signature);
  SignatureText(WithBatch(signature, batch / 2)) == operation;
}

// core/step/step_signature.h
absl::Status SignPart(EngineCatalog& catalog) {
  const TensorSpec x = {{256, 64, 27, 27}};
  const Layer conv2 = Convolution{.out_channels = 192, .kernel = 5, .padding = 2};
  ASSIGN_OR_RETURN(StepSignature forward, SignatureOf(conv2, Phase::kForward, {x}));
  forward.operands;  // x, weight, bias, y: a kernel takes their addresses in this order
  ASSIGN_OR_RETURN(StepSignature step, SignatureOf(conv2, Phase::kBackwardParams, {x}));
  StepSignature part = WithBatch(step, 64);           // core/step/signature_text.h
  if (SumsParts(step)) part = AddingSignature(part);  // a part after the first
  ASSIGN_OR_RETURN(std::vector<Engine> engines, catalog.Engines(part));  // may be UNIMPLEMENTED
  return absl::OkStatus();
}

// core/step/window.h
Extents StateExtents() {
  Extents e = 3;         // 3 along every axis
  e = {3, 5};            // of images: 3 along H, 5 along W
  e = {1, 3, 3};         // of volumes: D, H and W
  e = Extents::Of({7});  // of sequences
  return e;
}

}  // namespace neap::header_examples::step
