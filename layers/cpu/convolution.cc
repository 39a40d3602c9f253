#include "neap/layers/convolution.h"

#include <algorithm>

#include "neap/layers/cpu/onednn.h"

namespace neap::cpu {
namespace {

using namespace operands;
using dnnl::memory;

// A convolution as oneDNN wants it told, from the specs of image, weight and result.
struct Problem {
  memory::desc x, weight, y, bias;  // bias is empty where there is none
  memory::dims strides, dilation, padding;
};

Problem MakeProblem(const StepSignature& signature, const TensorSpec& x, const TensorSpec& y,
                    const TensorSpec& weight, bool bias) {
  const Convolution& layer = *signature.layer.As<Convolution>();
  Problem problem = {
      .x = ImageDesc(x),
      .weight = layer.groups == 1 ? ImageDesc(weight) : GroupedWeightDesc(weight, layer.groups),
      .y = ImageDesc(y),
      .strides = {layer.stride.h, layer.stride.w},
      .dilation = {layer.dilation.h - 1, layer.dilation.w - 1},
      .padding = {layer.padding.h, layer.padding.w}};
  if (bias) problem.bias = FlatDesc({.shape = {layer.out_channels}});
  return problem;
}

// The same with formats left to oneDNN: the weight's alone where it has kernels for plain images
// (NHWC), all where its kernels want blocked ones (NCHW).
Problem WithFreeFormats(Problem problem, Layout layout) {
  const auto release = [](memory::desc& desc) {
    desc = memory::desc(desc.dims(), memory::data_type::f32, memory::format_tag::any);
  };
  release(problem.weight);
  if (layout == Layout::kNhwc) return problem;
  release(problem.x);
  release(problem.y);
  return problem;
}

dnnl::convolution_forward::desc ForwardOperation(const Problem& p, dnnl::prop_kind kind) {
  return {kind,      dnnl::algorithm::convolution_direct,
          p.x,       p.weight,
          p.bias,    p.y,
          p.strides, p.dilation,
          p.padding, p.padding};
}

dnnl::convolution_forward::primitive_desc ForwardHint(const Problem& p, const Origin& origin) {
  return {ForwardOperation(p, dnnl::prop_kind::forward_training), UserScratchpad(), origin.engine};
}

}  // namespace

absl::StatusOr<Candidates> ConvolutionForward(const StepSignature& signature) {
  return GuardOnednn(signature, [&] {
    const Origin origin;
    const bool bias = signature.Has(Param(1));
    const Problem p = MakeProblem(signature, signature.Spec(X()), signature.Spec(Y()),
                                  signature.Spec(Param(0)), bias);
    std::vector<Binding> bindings = {
        {DNNL_ARG_SRC, p.x, X()}, {DNNL_ARG_WEIGHTS, p.weight, Param(0)}, {DNNL_ARG_DST, p.y, Y()}};
    if (bias) bindings.push_back({DNNL_ARG_BIAS, p.bias, Param(1)});
    const auto kind = signature.mode == Mode::kTraining ? dnnl::prop_kind::forward_training
                                                        : dnnl::prop_kind::forward_inference;
    Candidates candidates;
    for (bool converting : {true, false}) {
      const Problem told = converting ? WithFreeFormats(p, signature.Spec(X()).layout) : p;
      AppendImplementations<dnnl::convolution_forward::primitive_desc>(
          signature, origin, bindings, converting, candidates, ForwardOperation(told, kind));
    }
    return candidates;
  });
}

absl::StatusOr<Candidates> ConvolutionBackwardData(const StepSignature& signature) {
  return GuardOnednn(signature, [&] {
    const Problem p = MakeProblem(signature, signature.Spec(Dx()), signature.Spec(Dy()),
                                  signature.Spec(Param(0)), false);
    const std::vector<Binding> bindings = {{DNNL_ARG_DIFF_DST, p.y, Dy()},
                                           {DNNL_ARG_WEIGHTS, p.weight, Param(0)},
                                           {DNNL_ARG_DIFF_SRC, p.x, Dx()}};
    Origin origin;
    Candidates candidates;
    for (bool converting : {true, false}) {
      const Problem told = converting ? WithFreeFormats(p, signature.Spec(Dy()).layout) : p;
      const auto hint = ForwardHint(told, origin);
      origin.forward = hint;
      const dnnl::convolution_backward_data::desc operation(
          dnnl::algorithm::convolution_direct, told.x, told.weight, told.y, told.strides,
          told.dilation, told.padding, told.padding);
      AppendImplementations<dnnl::convolution_backward_data::primitive_desc>(
          signature, origin, bindings, converting, candidates, operation, hint);
    }
    return candidates;
  });
}

absl::StatusOr<Candidates> ConvolutionBackwardParams(const StepSignature& signature) {
  return GuardOnednn(signature, [&] {
    const bool bias = signature.Has(ParamGrad(1));
    const Problem p = MakeProblem(signature, signature.Spec(X()), signature.Spec(Dy()),
                                  signature.Spec(ParamGrad(0)), bias);
    std::vector<Binding> bindings = {{DNNL_ARG_SRC, p.x, X()},
                                     {DNNL_ARG_DIFF_DST, p.y, Dy()},
                                     {DNNL_ARG_DIFF_WEIGHTS, p.weight, ParamGrad(0)}};
    if (bias) bindings.push_back({DNNL_ARG_DIFF_BIAS, p.bias, ParamGrad(1)});
    Origin origin;
    Candidates candidates;
    for (bool converting : {true, false}) {
      const Problem told = converting ? WithFreeFormats(p, signature.Spec(Dy()).layout) : p;
      const auto hint = ForwardHint(told, origin);
      origin.forward = hint;
      const dnnl::convolution_backward_weights::desc operation(
          dnnl::algorithm::convolution_direct, told.x, told.weight, told.bias, told.y, told.strides,
          told.dilation, told.padding, told.padding);
      AppendImplementations<dnnl::convolution_backward_weights::primitive_desc>(
          signature, origin, bindings, converting, candidates, operation, hint);
    }
    return candidates;
  });
}

}  // namespace neap::cpu
