#include "neap/layers/fully_connected.h"

#include <algorithm>

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
    return {PrimitiveCandidate(signature, "onednn", origin, desc, std::move(bindings))};
  });
}

}  // namespace neap::cpu
