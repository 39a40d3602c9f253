#include "neap/layers/cpu/onednn.h"
#include "neap/layers/pooling.h"

namespace neap::cpu {
namespace {

using namespace operands;
using dnnl::memory;

struct Pool {
  memory::desc x, y;
  memory::dims kernel, stride, padding;
  dnnl::algorithm algorithm = dnnl::algorithm::pooling_avg_include_padding;
};

Pool MakePool(const StepSignature& signature, const TensorSpec& x, const TensorSpec& y) {
  const AveragePool& layer = *signature.layer.As<AveragePool>();
  Pool pool = {.x = ImageDesc(x),
               .y = ImageDesc(y),
               .kernel = {layer.kernel.h, layer.kernel.w},
               .stride = {layer.stride.h, layer.stride.w},
               .padding = {layer.padding.h, layer.padding.w}};
  if (!layer.count_padding) pool.algorithm = dnnl::algorithm::pooling_avg_exclude_padding;
  return pool;
}

dnnl::pooling_forward::primitive_desc ForwardDesc(const Origin& origin, const Pool& p) {
  return {{dnnl::prop_kind::forward_training, p.algorithm, p.x, p.y, p.stride, p.kernel, p.padding,
           p.padding},
          UserScratchpad(),
          origin.engine};
}

}  // namespace

absl::StatusOr<Candidates> AveragePoolForward(const StepSignature& signature) {
  return GuardOnednn(signature, [&]() -> Candidates {
    const Origin origin;
    const Pool p = MakePool(signature, signature.Spec(X()), signature.Spec(Y()));
    return {PrimitiveCandidate(signature, "onednn", origin, ForwardDesc(origin, p),
                               {{DNNL_ARG_SRC, p.x, X()}, {DNNL_ARG_DST, p.y, Y()}})};
  });
}

absl::StatusOr<Candidates> AveragePoolBackward(const StepSignature& signature) {
  return GuardOnednn(signature, [&]() -> Candidates {
    const Pool p = MakePool(signature, signature.Spec(Dx()), signature.Spec(Dy()));
    Origin origin;
    const auto hint = ForwardDesc(origin, p);
    origin.forward = hint;
    const dnnl::pooling_backward::primitive_desc desc(
        {p.algorithm, p.x, p.y, p.stride, p.kernel, p.padding, p.padding}, UserScratchpad(),
        origin.engine, hint);
    return {PrimitiveCandidate(signature, "onednn", origin, desc,
                               {{DNNL_ARG_DIFF_DST, p.y, Dy()}, {DNNL_ARG_DIFF_SRC, p.x, Dx()}})};
  });
}

}  // namespace neap::cpu
