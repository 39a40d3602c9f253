// The C++ example of docs/convolutions.md, compiled and not run.
#include <neap/advanced.h>

#include <memory>

namespace neap_header_examples {

absl::Status RunConvolution(neap::Device* device, const neap::KernelTimings& timings, void* x,
                            void* weight, void* bias, void* y, void* workspace) {
  const neap::TensorSpec x_spec = {{256, 64, 27, 27}};
  const neap::Layer conv2 = neap::Convolution{.out_channels = 192, .kernel = 5, .padding = 2};
  ASSIGN_OR_RETURN(neap::StepSignature step,
                   neap::SignatureOf(conv2, neap::Phase::kForward, {x_spec}));
  ASSIGN_OR_RETURN(
      neap::Configuration plan,
      neap::PlanConvolution(step, {.workspace_limit_bytes = 64 * neap::kMiB, .timings = &timings},
                            device->backend()));
  ASSIGN_OR_RETURN(
      std::unique_ptr<neap::Kernel> kernel,
      neap::MakeDividedKernel(device->backend(), step, plan.parts, plan.workspace_bytes));
  void* operands[] = {x, weight, bias, y};  // in the order of step.operands
  RETURN_IF_ERROR(kernel->Run(
      {.operands = operands, .workspace = workspace, .workspace_bytes = plan.workspace_bytes}));
  return absl::OkStatus();
}

}  // namespace neap_header_examples
