#include "neap/layers/fully_connected.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cpu/onednn.h"

namespace neap::cpu {
namespace {

using namespace operands;
using dnnl::memory;

// An inner product in oneDNN's terms. x and weight keep their image axes, whose strides show that
// their layouts agree.
struct Problem {
  memory::desc x, weight, y, bias;  // bias is empty if the step has none
};

Problem MakeProblem(const TensorSpec& x, const TensorSpec& weight, const TensorSpec& y, bool bias) {
  Problem problem = {.x = ImageDesc(x), .weight = ImageDesc(weight), .y = MatrixDesc(y)};
  if (bias) problem.bias = FlatDesc({.shape = {y.shape.c()}});
  return problem;
}

// Also the hint of a backward descriptor; gradients of weights have more precision than these.
dnnl::inner_product_forward::primitive_desc ForwardDesc(const Origin& origin, Problem p) {
  p.weight.data.data_type = p.x.data.data_type;
  return {{dnnl::prop_kind::forward_training, p.x, p.weight, p.bias, p.y},
          UserScratchpad(),
          origin.engine};
}

int64_t ScratchBytes(const OperandSpec& operand) {
  if (operand.access != Access::kAccumulate) return 0;
  return RoundUp(operand.tensor.size_bytes(), kWorkspaceAlignment);
}

// Runs a kernel that overwrites what this one accumulates, on scratch space at the beginning of the
// workspace, and adds that.
class AddingKernel final : public Kernel {
 public:
  AddingKernel(StepSignature signature, std::unique_ptr<Kernel> kernel)
      : signature_(std::move(signature)), kernel_(std::move(kernel)) {}

  absl::Status Run(const KernelArgs& args) override {
    std::vector<void*> operands(args.operands.begin(), args.operands.end());
    auto* free = static_cast<std::byte*>(args.workspace);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (signature_.operands[i].access != Access::kAccumulate) continue;
      operands[i] = free;
      free += ScratchBytes(signature_.operands[i]);
    }
    const int64_t scratch = free - static_cast<std::byte*>(args.workspace);
    RETURN_IF_ERROR(kernel_->Run({.operands = operands,
                                  .workspace = free,
                                  .workspace_bytes = args.workspace_bytes - scratch}));
    for (size_t i = 0; i < operands.size(); ++i) {
      if (signature_.operands[i].access != Access::kAccumulate) continue;
      auto* const sum = static_cast<float*>(args.operands[i]);
      const auto* const part = static_cast<const float*>(operands[i]);
      const int64_t count = signature_.operands[i].tensor.elements();
      std::transform(sum, sum + count, part, sum, std::plus<>());
    }
    return absl::OkStatus();
  }

 private:
  StepSignature signature_;
  std::unique_ptr<Kernel> kernel_;
};

// The candidate, for a signature that accumulates gradients.
Candidate Adding(const StepSignature& signature, Candidate candidate) {
  for (const OperandSpec& operand : signature.operands)
    candidate.engine.workspace_bytes += ScratchBytes(operand);
  candidate.make = [signature, make = candidate.make]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make());
    return std::make_unique<AddingKernel>(signature, std::move(kernel));
  };
  return candidate;
}

}  // namespace

absl::StatusOr<Candidates> FullyConnectedForward(const StepSignature& signature) {
  return GuardOnednn(signature, [&]() -> Candidates {
    const Origin origin;
    const bool bias = signature.Has(Param(1));
    const Problem p =
        MakeProblem(signature.Spec(X()), signature.Spec(Param(0)), signature.Spec(Y()), bias);
    std::vector<Binding> bindings = {
        {DNNL_ARG_SRC, p.x, X()}, {DNNL_ARG_WEIGHTS, p.weight, Param(0)}, {DNNL_ARG_DST, p.y, Y()}};
    if (bias) bindings.push_back({DNNL_ARG_BIAS, p.bias, Param(1)});
    return {PrimitiveCandidate(signature, "onednn", origin, ForwardDesc(origin, p),
                               std::move(bindings))};
  });
}

absl::StatusOr<Candidates> FullyConnectedBackwardData(const StepSignature& signature) {
  return GuardOnednn(signature, [&]() -> Candidates {
    const Problem p =
        MakeProblem(signature.Spec(Dx()), signature.Spec(Param(0)), signature.Spec(Dy()), false);
    Origin origin;
    const auto hint = ForwardDesc(origin, p);
    origin.forward = hint;
    const dnnl::inner_product_backward_data::primitive_desc desc(
        {p.x, p.weight, p.y}, UserScratchpad(), origin.engine, hint);
    return {PrimitiveCandidate(signature, "onednn", origin, desc,
                               {{DNNL_ARG_DIFF_DST, p.y, Dy()},
                                {DNNL_ARG_WEIGHTS, p.weight, Param(0)},
                                {DNNL_ARG_DIFF_SRC, p.x, Dx()}})};
  });
}

absl::StatusOr<Candidates> FullyConnectedBackwardParams(const StepSignature& signature) {
  return GuardOnednn(signature, [&]() -> Candidates {
    const bool bias = signature.Has(ParamGrad(1));
    const Problem p =
        MakeProblem(signature.Spec(X()), signature.Spec(ParamGrad(0)), signature.Spec(Dy()), bias);
    Origin origin;
    const auto hint = ForwardDesc(origin, p);
    origin.forward = hint;
    const dnnl::inner_product_backward_weights::primitive_desc desc(
        {p.x, p.weight, p.bias, p.y}, UserScratchpad(), origin.engine, hint);
    std::vector<Binding> bindings = {{DNNL_ARG_SRC, p.x, X()},
                                     {DNNL_ARG_DIFF_DST, p.y, Dy()},
                                     {DNNL_ARG_DIFF_WEIGHTS, p.weight, ParamGrad(0)}};
    if (bias) bindings.push_back({DNNL_ARG_DIFF_BIAS, p.bias, ParamGrad(1)});
    Candidate candidate = PrimitiveCandidate(WritingSignature(signature), "onednn", origin, desc,
                                             std::move(bindings));
    if (!signature.Accumulates(ParamGrad(0))) return {std::move(candidate)};
    return {Adding(signature, std::move(candidate))};
  });
}

}  // namespace neap::cpu
