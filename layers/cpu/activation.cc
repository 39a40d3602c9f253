#include "neap/layers/activation.h"

#include "neap/layers/cpu/onednn.h"

namespace neap::cpu {
namespace {

using namespace operands;
using dnnl::algorithm;

struct Algorithms {
  algorithm forward;
  algorithm backward;  // from y, not x
};

Algorithms AlgorithmsOf(const Layer& layer) {
  if (layer.As<Sigmoid>() != nullptr) {
    return {algorithm::eltwise_logistic, algorithm::eltwise_logistic_use_dst_for_bwd};
  }
  return {algorithm::eltwise_tanh, algorithm::eltwise_tanh_use_dst_for_bwd};
}

dnnl::eltwise_forward::primitive_desc ForwardDesc(const Origin& origin, algorithm which,
                                                  const dnnl::memory::desc& data) {
  return {{dnnl::prop_kind::forward_training, which, data, 0.0F}, UserScratchpad(), origin.engine};
}

// ReLU as own loops, because oneDNN's turns NaN into 0, which hides a diverged network.
void ReluForward(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  const int64_t elements = args.signature.Spec(X()).elements();
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) {
    const float value = x[i];
    y[i] = value <= 0 ? 0 : value;
  }
}

void ReluBackward(const LoopArgs& args) {
  const float* const y = args.Get<float>(Y());
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  const int64_t elements = args.signature.Spec(Y()).elements();
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) {
    const float gradient = dy[i];  // loaded unconditionally, to avoid a branch
    dx[i] = y[i] <= 0 ? 0 : gradient;
  }
}

}  // namespace

absl::StatusOr<Candidates> ActivationForward(const StepSignature& signature) {
  if (signature.layer.As<Relu>() != nullptr) return OwnLoop(signature, ReluForward);
  return GuardOnednn(signature, [&]() -> Candidates {
    const Origin origin;
    const dnnl::memory::desc data = FlatDesc(signature.Spec(X()));
    return {PrimitiveCandidate(signature, "onednn", origin,
                               ForwardDesc(origin, AlgorithmsOf(signature.layer).forward, data),
                               {{DNNL_ARG_SRC, data, X()}, {DNNL_ARG_DST, data, Y()}})};
  });
}

absl::StatusOr<Candidates> ActivationBackward(const StepSignature& signature) {
  if (signature.layer.As<Relu>() != nullptr) return OwnLoop(signature, ReluBackward);
  return GuardOnednn(signature, [&]() -> Candidates {
    const dnnl::memory::desc data = FlatDesc(signature.Spec(Y()));
    const algorithm which = AlgorithmsOf(signature.layer).backward;
    Origin origin;
    const auto hint = ForwardDesc(origin, which, data);
    origin.forward = hint;
    const dnnl::eltwise_backward::primitive_desc desc({which, data, data, 0.0F}, UserScratchpad(),
                                                      origin.engine, hint);
    return {PrimitiveCandidate(signature, "onednn", origin, desc,
                               {{DNNL_ARG_DST, data, Y()},
                                {DNNL_ARG_DIFF_DST, data, Dy()},
                                {DNNL_ARG_DIFF_SRC, data, Dx()}})};
  });
}

}  // namespace neap::cpu
