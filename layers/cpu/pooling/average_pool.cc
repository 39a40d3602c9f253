#include <algorithm>

#include "neap/layers/cpu/onednn.h"
#include "neap/layers/cpu/pooling/pool_windows.h"
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
  const int axes = x.shape.spatial_axes();
  Pool pool = {.x = ImageDesc(x),
               .y = ImageDesc(y),
               .kernel = DimsOf(layer.kernel.Along(axes)),
               .stride = DimsOf(layer.stride.Along(axes)),
               .padding = DimsOf(layer.padding.Along(axes))};
  if (!layer.count_padding) pool.algorithm = dnnl::algorithm::pooling_avg_exclude_padding;
  return pool;
}

dnnl::pooling_forward::primitive_desc ForwardDesc(const Origin& origin, const Pool& p) {
  return {{dnnl::prop_kind::forward_training, p.algorithm, p.x, p.y, p.stride, p.kernel, p.padding,
           p.padding},
          UserScratchpad(),
          origin.engine};
}

// A window in ceil_mode may pass the padding. oneDNN would treat the rest as more padding, and a
// mean that counts padding would divide by it. So such windows have loops of their own, as have the
// rare ones with dilation.
bool HasOwnLoop(const StepSignature& signature) {
  const AveragePool& layer = *signature.layer.As<AveragePool>();
  return layer.ceil_mode || !layer.dilation.AllAre(1);
}

// The number of pixels along one axis by which a mean divides.
int64_t Counted(const Span& span, int64_t kernel, int64_t size, int64_t padding,
                bool with_padding) {
  return with_padding ? PositionsBefore(size + padding, span.origin, kernel, span.dilation)
                      : span.end - span.begin;
}

// Calls f(output offset in y, window, number of pixels in its mean) for every output.
template <typename F>
void ForEachMean(const AveragePool& layer, const TensorSpec& x, const TensorSpec& y, F f) {
  const int axes = x.shape.spatial_axes();
  const int64_t planes = layer.kernel.d(axes, 1), padding = layer.padding.d(axes, 0);
  ForEachWindow(layer, x, y, [&](int64_t at, const PoolWindow& window) {
    const int64_t depth = Counted(window.planes, planes, x.shape.d(), padding, layer.count_padding);
    const int64_t height =
        Counted(window.rows, layer.kernel.h(), x.shape.h(), layer.padding.h(), layer.count_padding);
    const int64_t width = Counted(window.columns, layer.kernel.w(), x.shape.w(), layer.padding.w(),
                                  layer.count_padding);
    f(at, window, static_cast<float>(depth * height * width));
  });
}

void Forward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(X());
  const Strides strides = StridesOf(spec);
  const AveragePool& layer = *args.signature.layer.As<AveragePool>();
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  ForEachMean(layer, spec, args.signature.Spec(Y()),
              [&](int64_t at, const PoolWindow& window, float count) {
                float sum = 0;
                ForEachInWindow(layer, window, strides, [&](int64_t i, int64_t) { sum += x[i]; });
                y[at] = sum / count;
              });
}

void Backward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dx());
  const Strides strides = StridesOf(spec);
  const AveragePool& layer = *args.signature.layer.As<AveragePool>();
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  std::fill_n(dx, spec.elements(), 0.0F);
  ForEachMean(layer, spec, args.signature.Spec(Dy()),
              [&](int64_t at, const PoolWindow& window, float count) {
                ForEachInWindow(layer, window, strides,
                                [&](int64_t i, int64_t) { dx[i] += dy[at] / count; });
              });
}

}  // namespace

absl::StatusOr<Candidates> AveragePoolForward(const StepSignature& signature) {
  if (HasOwnLoop(signature)) return OwnLoop(signature, Forward);
  return GuardOnednn(signature, [&]() -> Candidates {
    const Origin origin;
    const Pool p = MakePool(signature, signature.Spec(X()), signature.Spec(Y()));
    return {PrimitiveCandidate(signature, "onednn", origin, ForwardDesc(origin, p),
                               {{DNNL_ARG_SRC, p.x, X()}, {DNNL_ARG_DST, p.y, Y()}})};
  });
}

absl::StatusOr<Candidates> AveragePoolBackward(const StepSignature& signature) {
  if (HasOwnLoop(signature)) return OwnLoop(signature, Backward);
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
