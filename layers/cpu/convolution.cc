#include "neap/layers/cpu/convolution.h"

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

bool HasBias(const StepSignature& signature, const ConvolutionRoles& roles) {
  return roles.bias.has_value() && signature.Has(*roles.bias);
}

Problem MakeProblem(const StepSignature& signature, const ConvolutionRoles& roles) {
  const Convolution& layer = roles.layer;
  const TensorSpec& weight = signature.Spec(roles.weight);
  Problem problem = {
      .x = ImageDesc(signature.Spec(roles.x)),
      .weight = layer.groups == 1 ? ImageDesc(weight) : GroupedWeightDesc(weight, layer.groups),
      .y = ImageDesc(signature.Spec(roles.y)),
      .strides = {layer.stride.h, layer.stride.w},
      .dilation = {layer.dilation.h - 1, layer.dilation.w - 1},
      .padding = {layer.padding.h, layer.padding.w}};
  if (HasBias(signature, roles)) problem.bias = FlatDesc({.shape = {layer.out_channels}});
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

dnnl::convolution_forward::desc ForwardOperation(const Problem& p) {
  return {dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          p.x,
          p.weight,
          p.bias,
          p.y,
          p.strides,
          p.dilation,
          p.padding,
          p.padding};
}

dnnl::convolution_forward::primitive_desc ForwardHint(const Problem& p, const Origin& origin) {
  return {ForwardOperation(p), UserScratchpad(), origin.engine};
}

}  // namespace

absl::StatusOr<Candidates> ListForward(const StepSignature& signature,
                                       const ConvolutionRoles& roles) {
  return GuardOnednn(signature, [&] {
    const Origin origin;
    const Problem p = MakeProblem(signature, roles);
    std::vector<Binding> bindings = {{DNNL_ARG_SRC, p.x, roles.x},
                                     {DNNL_ARG_WEIGHTS, p.weight, roles.weight},
                                     {DNNL_ARG_DST, p.y, roles.y}};
    if (HasBias(signature, roles)) bindings.push_back({DNNL_ARG_BIAS, p.bias, *roles.bias});
    Candidates candidates;
    for (bool converting : {true, false}) {
      const Problem told = converting ? WithFreeFormats(p, signature.Spec(roles.x).layout) : p;
      AppendImplementations<dnnl::convolution_forward::primitive_desc>(
          signature, origin, bindings, converting, candidates, ForwardOperation(told));
    }
    return candidates;
  });
}

absl::StatusOr<Candidates> ListBackwardData(const StepSignature& signature,
                                            const ConvolutionRoles& roles) {
  return GuardOnednn(signature, [&] {
    const Problem p = MakeProblem(signature, roles);
    const std::vector<Binding> bindings = {{DNNL_ARG_DIFF_DST, p.y, roles.y},
                                           {DNNL_ARG_WEIGHTS, p.weight, roles.weight},
                                           {DNNL_ARG_DIFF_SRC, p.x, roles.x}};
    Origin origin;
    Candidates candidates;
    for (bool converting : {true, false}) {
      const Problem told = converting ? WithFreeFormats(p, signature.Spec(roles.y).layout) : p;
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

absl::StatusOr<Candidates> ListBackwardParams(const StepSignature& signature,
                                              const ConvolutionRoles& roles) {
  return GuardOnednn(signature, [&] {
    const Problem p = MakeProblem(signature, roles);
    std::vector<Binding> bindings = {{DNNL_ARG_SRC, p.x, roles.x},
                                     {DNNL_ARG_DIFF_DST, p.y, roles.y},
                                     {DNNL_ARG_DIFF_WEIGHTS, p.weight, roles.weight}};
    if (HasBias(signature, roles)) bindings.push_back({DNNL_ARG_DIFF_BIAS, p.bias, *roles.bias});
    Origin origin;
    Candidates candidates;
    for (bool converting : {true, false}) {
      const Problem told = converting ? WithFreeFormats(p, signature.Spec(roles.y).layout) : p;
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

absl::StatusOr<Candidates> ConvolutionForward(const StepSignature& signature) {
  const Convolution& layer = *signature.layer.As<Convolution>();
  return ListForward(signature, {layer, X(), Param(0), Y(), Param(1)});
}
absl::StatusOr<Candidates> ConvolutionBackwardData(const StepSignature& signature) {
  const Convolution& layer = *signature.layer.As<Convolution>();
  return ListBackwardData(signature, {layer, Dx(), Param(0), Dy()});
}
absl::StatusOr<Candidates> ConvolutionBackwardParams(const StepSignature& signature) {
  const Convolution& layer = *signature.layer.As<Convolution>();
  return ListBackwardParams(signature, {layer, X(), ParamGrad(0), Dy(), ParamGrad(1)});
}

}  // namespace neap::cpu
