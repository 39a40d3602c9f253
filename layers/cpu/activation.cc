#include "neap/layers/activation.h"

#include "neap/layers/cpu/activation_functions.h"
#include "neap/layers/cpu/onednn.h"

namespace neap::cpu {
namespace {

using namespace operands;
using dnnl::algorithm;

// The tensor that backward reads besides dy.
Operand OfGradient(const StepSignature& signature) { return signature.Has(Y()) ? Y() : X(); }

template <typename Function>
Function FunctionFrom(const StepSignature& signature) {
  return {*signature.layer.As<typename Function::Of>(), signature.operands.front().tensor.dtype};
}

template <typename Function>
void ForwardLoop(const LoopArgs& args) {
  const Function function = FunctionFrom<Function>(args.signature);
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  const int64_t elements = args.Elements(X());
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) y[i] = function.Value(x[i]);
}

template <typename Function>
void BackwardLoop(const LoopArgs& args) {
  const Function function = FunctionFrom<Function>(args.signature);
  const float* const value = args.Get<float>(OfGradient(args.signature));
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  const int64_t elements = args.Elements(Dx());
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) {
    const float gradient = dy[i];  // loaded unconditionally, to avoid a branch
    dx[i] = function.Gradient(value[i], gradient);
  }
}

template <typename Function>
Candidates Loops(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnLoop(signature, forward ? ForwardLoop<Function> : BackwardLoop<Function>);
}

// Those of the function whose layer the step is of.
template <typename... Functions>
Candidates LoopsOfAny(const StepSignature& signature) {
  Candidates loops;
  const auto try_one = [&]<typename Function>(Function* /*type*/) {
    if (signature.layer.As<typename Function::Of>() == nullptr) return false;
    loops = Loops<Function>(signature);
    return true;
  };
  (try_one(static_cast<Functions*>(nullptr)) || ...);
  return loops;
}

// A function of oneDNN's.
struct Eltwise {
  algorithm forward;
  algorithm backward;
};

dnnl::eltwise_forward::primitive_desc ForwardDesc(const Origin& origin, algorithm which,
                                                  const dnnl::memory::desc& data) {
  return {{dnnl::prop_kind::forward_training, which, data}, UserScratchpad(), origin.engine};
}

Candidates EltwiseForward(const StepSignature& signature, const Eltwise& eltwise) {
  const Origin origin;
  const dnnl::memory::desc data = FlatDesc(signature.Spec(X()));
  return {PrimitiveCandidate(signature, "onednn", origin,
                             ForwardDesc(origin, eltwise.forward, data),
                             {{DNNL_ARG_SRC, data, X()}, {DNNL_ARG_DST, data, Y()}})};
}

Candidates EltwiseBackward(const StepSignature& signature, const Eltwise& eltwise) {
  const Operand value = OfGradient(signature);
  const dnnl::memory::desc data = FlatDesc(signature.Spec(value));
  Origin origin;
  const auto hint = ForwardDesc(origin, eltwise.backward, data);
  origin.forward = hint;
  const dnnl::eltwise_backward::primitive_desc desc({eltwise.backward, data, data},
                                                    UserScratchpad(), origin.engine, hint);
  return {PrimitiveCandidate(signature, "onednn", origin, desc,
                             {{value == Y() ? DNNL_ARG_DST : DNNL_ARG_SRC, data, value},
                              {DNNL_ARG_DIFF_DST, data, Dy()},
                              {DNNL_ARG_DIFF_SRC, data, Dx()}})};
}

absl::StatusOr<Candidates> Eltwises(const StepSignature& signature, const Eltwise& eltwise) {
  return GuardOnednn(signature, [&] {
    return signature.phase == Phase::kForward ? EltwiseForward(signature, eltwise)
                                              : EltwiseBackward(signature, eltwise);
  });
}

}  // namespace

absl::StatusOr<Candidates> SigmoidSteps(const StepSignature& signature) {
  return Eltwises(signature,
                  {algorithm::eltwise_logistic, algorithm::eltwise_logistic_use_dst_for_bwd});
}

absl::StatusOr<Candidates> TanhSteps(const StepSignature& signature) {
  return Eltwises(signature, {algorithm::eltwise_tanh, algorithm::eltwise_tanh_use_dst_for_bwd});
}

absl::StatusOr<Candidates> ActivationSteps(const StepSignature& signature) {
  return LoopsOfAny<ReluFunction, LeakyReluFunction, ClipFunction, HardSigmoidFunction,
                    HardSwishFunction, SiluFunction, GeluFunction, EluFunction, SoftplusFunction,
                    MishFunction>(signature);
}

}  // namespace neap::cpu
