#include <cmath>
#include <limits>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/pooling.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Distances between neighbours along each axis, in elements.
struct Strides {
  int64_t n, c, h, w;
};

Strides StridesOf(const TensorSpec& spec) {
  const Shape& s = spec.shape;
  if (spec.layout == Layout::kNhwc) return {s.h() * s.w() * s.c(), 1, s.w() * s.c(), s.c()};
  return {s.c() * s.h() * s.w(), s.h() * s.w(), s.w(), 1};
}

// The part of a window along one axis that is inside the image: kernel positions [begin, end), and
// the image position of kernel position 0.
struct Span {
  int64_t origin, begin, end;
};

Span Clip(int64_t position, int64_t stride, int64_t padding, int64_t kernel, int64_t size) {
  const int64_t origin = position * stride - padding;
  return {origin, std::max<int64_t>(0, -origin), std::min(kernel, size - origin)};
}

// Calls f(output offset in y, input offset of the plane, rows, columns) for every output, in y's
// memory order.
template <typename F>
void ForEachOutput(const MaxPool& layer, const TensorSpec& x, const TensorSpec& y, F f) {
  const Strides in = StridesOf(x);
  const Strides out = StridesOf(y);
  const bool channels_last = y.layout == Layout::kNhwc;
  const int64_t outer = channels_last ? 1 : y.shape.c();
  const int64_t inner = channels_last ? y.shape.c() : 1;
  for (int64_t n = 0; n < y.shape.n(); ++n) {
    for (int64_t co = 0; co < outer; ++co) {
      for (int64_t i = 0; i < y.shape.h(); ++i) {
        const Span rows = Clip(i, layer.stride.h, layer.padding.h, layer.kernel.h, x.shape.h());
        for (int64_t j = 0; j < y.shape.w(); ++j) {
          const Span columns =
              Clip(j, layer.stride.w, layer.padding.w, layer.kernel.w, x.shape.w());
          for (int64_t ci = 0; ci < inner; ++ci) {
            const int64_t c = co + ci;
            f(n * out.n + c * out.c + i * out.h + j * out.w, n * in.n + c * in.c, rows, columns);
          }
        }
      }
    }
  }
}

struct Winner {
  float value;
  int64_t index;
};

// The first largest element, or the first NaN if there is one.
Winner Largest(const float* plane, const Strides& strides, const Span& rows, const Span& columns,
               int64_t kernel_w) {
  Winner best = {-std::numeric_limits<float>::infinity(), rows.begin * kernel_w + columns.begin};
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t s = columns.begin; s < columns.end; ++s) {
      const float value = plane[(rows.origin + r) * strides.h + (columns.origin + s) * strides.w];
      if (!(value <= best.value) && !std::isnan(best.value)) best = {value, r * kernel_w + s};
    }
  }
  return best;
}

template <typename Index>
void Forward(const LoopArgs& args) {
  const MaxPool& layer = *args.signature.layer.As<MaxPool>();
  const TensorSpec& x_spec = args.signature.Spec(X());
  const Strides strides = StridesOf(x_spec);
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  Index* const index = args.Find<Index>(Saved(0));
  ForEachOutput(layer, x_spec, args.signature.Spec(Y()),
                [&](int64_t at, int64_t plane, const Span& rows, const Span& columns) {
                  const Winner best = Largest(x + plane, strides, rows, columns, layer.kernel.w);
                  y[at] = best.value;
                  if (index != nullptr) index[at] = static_cast<Index>(best.index);
                });
}

template <typename Index>
void Backward(const LoopArgs& args) {
  const MaxPool& layer = *args.signature.layer.As<MaxPool>();
  const TensorSpec& x_spec = args.signature.Spec(Dx());
  const Strides strides = StridesOf(x_spec);
  const float* const dy = args.Get<float>(Dy());
  const Index* const index = args.Get<Index>(Saved(0));
  float* const dx = args.Get<float>(Dx());
  std::fill_n(dx, x_spec.elements(), 0.0F);
  ForEachOutput(layer, x_spec, args.signature.Spec(Dy()),
                [&](int64_t at, int64_t plane, const Span& rows, const Span& columns) {
                  const int64_t r = rows.origin + index[at] / layer.kernel.w;
                  const int64_t s = columns.origin + index[at] % layer.kernel.w;
                  dx[plane + r * strides.h + s * strides.w] += dy[at];
                });
}

}  // namespace

absl::StatusOr<Candidates> MaxPoolForward(const StepSignature& signature) {
  const bool wide = signature.Has(Saved(0)) && signature.Spec(Saved(0)).dtype == DType::kInt32;
  return OwnLoop(signature, wide ? Forward<int32_t> : Forward<uint8_t>);
}

absl::StatusOr<Candidates> MaxPoolBackward(const StepSignature& signature) {
  const bool wide = signature.Spec(Saved(0)).dtype == DType::kInt32;
  return OwnLoop(signature, wide ? Backward<int32_t> : Backward<uint8_t>);
}

}  // namespace neap::cpu
