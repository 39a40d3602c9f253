#include "neap/layers/cpu/convolution.h"

#include <vector>

#include "absl/strings/match.h"
#include "neap/layers/cpu/onednn.h"

namespace neap::cpu {
namespace {

using namespace operands;
using dnnl::memory;

// A convolution in oneDNN's terms, from the specs of image, weight and result.
struct Problem {
  memory::desc x, weight, y, bias;  // bias is empty if the step has none
  memory::dims strides, dilation, padding;
};

bool HasBias(const StepSignature& signature, const ConvolutionRoles& roles) {
  return roles.bias.has_value() && signature.Has(*roles.bias);
}

// oneDNN counts the positions between two elements of a window.
memory::dims GapsOf(const Extents& dilation) {
  memory::dims gaps = DimsOf(dilation);
  for (int64_t& gap : gaps) --gap;
  return gaps;
}

Problem MakeProblem(const StepSignature& signature, const ConvolutionRoles& roles) {
  const Convolution& layer = roles.layer;
  const TensorSpec& weight = signature.Spec(roles.weight);
  const int axes = weight.shape.spatial_axes();
  Problem problem = {
      .x = ImageDesc(signature.Spec(roles.x)),
      .weight = layer.groups == 1 ? ImageDesc(weight) : GroupedWeightDesc(weight, layer.groups),
      .y = ImageDesc(signature.Spec(roles.y)),
      .strides = DimsOf(layer.stride.Along(axes)),
      .dilation = GapsOf(layer.dilation.Along(axes)),
      .padding = DimsOf(layer.padding.Along(axes))};
  if (HasBias(signature, roles)) problem.bias = FlatDesc({.shape = {layer.out_channels}});
  return problem;
}

void ReleaseFormat(memory::desc& desc) {
  desc = memory::desc(desc.dims(), desc.data_type(), memory::format_tag::any);
}

// The same problem, with the weight's format chosen by oneDNN.
Problem WithFreeWeight(Problem problem) {
  ReleaseFormat(problem.weight);
  return problem;
}

// The same problem, with all formats chosen by oneDNN.
Problem WithFreeFormats(Problem problem) {
  ReleaseFormat(problem.x);
  ReleaseFormat(problem.y);
  return WithFreeWeight(std::move(problem));
}

// A query for oneDNN's implementations.
struct Question {
  Problem problem;
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  bool converting = false;  // take the implementations that convert, or those that do not
};

// Lists what `append(question, candidates)` finds. Direct algorithms, including GEMM, come first:
// those for plain images (NHWC) or for blocked ones (NCHW), then those that convert nothing.
// Winograd's follow, which exist for blocked images only, and for most problems and on CPUs without
// AVX-512 not at all.
template <typename Append>
Candidates ListAll(const Problem& problem, Layout layout, Append append) {
  Candidates candidates;
  const bool is_nhwc = layout == Layout::kChannelsLast;
  append(
      {.problem = is_nhwc ? WithFreeWeight(problem) : WithFreeFormats(problem), .converting = true},
      candidates);
  append({.problem = problem}, candidates);
  const size_t direct = candidates.size();
  try {
    append({.problem = WithFreeFormats(problem),
            .algorithm = dnnl::algorithm::convolution_winograd,
            .converting = true},
           candidates);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
  }
  for (size_t i = direct; i < candidates.size(); ++i) candidates[i].engine.notes = "winograd";
  return candidates;
}

// Inference uses training's descriptor too: with its own, Winograd would need its own weight
// format, for which oneDNN has no reorder from NHWC, and more workspace than was measured.
dnnl::convolution_forward::desc ForwardOperation(const Problem& p, dnnl::algorithm algorithm) {
  return {dnnl::prop_kind::forward_training,
          algorithm,
          p.x,
          p.weight,
          p.bias,
          p.y,
          p.strides,
          p.dilation,
          p.padding,
          p.padding};
}

// Leaves out what oneDNN 2.6.3 sums wrongly over so many channels of an image or of its gradient.
// jit_bf16_1x1 takes channels in pairs, and with an odd number of them some sizes of images give
// wrong results (30, 205, 206, 210, 240 or 420 pixels among others).
Candidates WithoutWrongSums(Candidates candidates, int64_t channels) {
  std::erase_if(candidates, [channels](const Candidate& candidate) {
    return absl::StartsWith(candidate.engine.id, "jit_bf16_1x1:") && channels % 2 == 1;
  });
  return candidates;
}

// Whether oneDNN 2.6.3 computes wrong gradients of weights. The threads of jit_1x1 overwrite each
// other's sums of strided weights (avx2 with plain images has other bits in half of all runs, and
// wrong ones; avx512_core with blocked images in some). jit_bf16 leaves weights out that only see
// padding.
bool IsWrong(const Candidate& candidate, const Convolution& layer) {
  const std::string& id = candidate.engine.id;
  if (absl::StartsWith(id, "jit_bf16:")) return true;
  return absl::StartsWith(id, "jit_1x1:") && !layer.stride.AllAre(1);
}

// The forward descriptor that every backward descriptor needs, whatever its algorithm. Gradients of
// weights have more precision than the weights.
dnnl::convolution_forward::primitive_desc ForwardHint(Problem p, const Origin& origin) {
  p.weight.data.data_type = p.x.data.data_type;
  return {ForwardOperation(p, dnnl::algorithm::convolution_direct), UserScratchpad(),
          origin.engine};
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
    const auto append = [&](const Question& question, Candidates& candidates) {
      AppendImplementations<dnnl::convolution_forward::primitive_desc>(
          signature, origin, bindings, question.converting, candidates,
          ForwardOperation(question.problem, question.algorithm));
    };
    const TensorSpec& summed = signature.Spec(roles.x);
    return WithoutWrongSums(ListAll(p, summed.layout, append),
                            summed.shape.c() / roles.layer.groups);
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
    const auto append = [&](const Question& question, Candidates& candidates) {
      const Problem& q = question.problem;
      const auto hint = ForwardHint(q, origin);
      origin.forward = hint;
      const dnnl::convolution_backward_data::desc operation(
          question.algorithm, q.x, q.weight, q.y, q.strides, q.dilation, q.padding, q.padding);
      AppendImplementations<dnnl::convolution_backward_data::primitive_desc>(
          signature, origin, bindings, question.converting, candidates, operation, hint);
    };
    const TensorSpec& summed = signature.Spec(roles.y);
    return WithoutWrongSums(ListAll(p, summed.layout, append),
                            summed.shape.c() / roles.layer.groups);
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
    const auto append = [&](const Question& question, Candidates& candidates) {
      const Problem& q = question.problem;
      const auto hint = ForwardHint(q, origin);
      origin.forward = hint;
      const dnnl::convolution_backward_weights::desc operation(question.algorithm, q.x, q.weight,
                                                               q.bias, q.y, q.strides, q.dilation,
                                                               q.padding, q.padding);
      AppendImplementations<dnnl::convolution_backward_weights::primitive_desc>(
          signature, origin, bindings, question.converting, candidates, operation, hint);
    };
    Candidates candidates = ListAll(p, signature.Spec(roles.y).layout, append);
    std::erase_if(candidates,
                  [&](const Candidate& candidate) { return IsWrong(candidate, roles.layer); });
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
