#include "neap/layers/multiply.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/dot_product.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

// a as rows, and whether b has one factor for each image and channel.
struct Factors {
  ChannelRows rows;
  bool per_channel;
};

Factors FactorsOf(const StepSignature& signature) {
  const TensorSpec& a = signature.Spec(X(0));
  return {ChannelRowsOf(a), a.shape != signature.Spec(X(1)).shape};
}

void Forward(const LoopArgs& args) {
  const auto [rows, per_channel] = FactorsOf(args.signature);
  const float* const a = args.Get<float>(X(0));
  const float* const b = args.Get<float>(X(1));
  float* const y = args.Get<float>(Y());
  if (!per_channel) {
    for (int64_t i = 0; i < args.Elements(Y()); ++i) y[i] = a[i] * b[i];
  } else if (rows.channels_last) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      const int64_t begin = r * rows.channels;
      const float* const factors = b + r / rows.pixels * rows.channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < rows.channels; ++c) y[begin + c] = a[begin + c] * factors[c];
    }
  } else {
    for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
      const float factor = b[r];
#pragma GCC ivdep
      for (int64_t i = r * rows.pixels; i < (r + 1) * rows.pixels; ++i) y[i] = a[i] * factor;
    }
  }
}

// A gradient, to which a product is added if it already holds a partial sum.
struct Gradient {
  Gradient(const LoopArgs& args, Operand operand)
      : values(args.Get<float>(operand)), adds(args.signature.Accumulates(operand)) {}
  void Put(int64_t i, float value) const { values[i] = adds ? values[i] + value : value; }
  float* values;
  bool adds;
};

struct BackwardOperands {
  explicit BackwardOperands(const LoopArgs& args)
      : a(args.Get<float>(X(0))),
        b(args.Get<float>(X(1))),
        dy(args.Get<float>(Dy())),
        da(args, Dx(0)),
        db(args, Dx(1)) {}
  const float* a;
  const float* b;
  const float* dy;
  Gradient da, db;  // da may lie over a or dy
};

void BackwardElementwise(const BackwardOperands& of, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    const float factor = of.a[i], gradient = of.dy[i];
    of.da.Put(i, gradient * of.b[i]);
    of.db.Put(i, gradient * factor);
  }
}

// Backward for one factor per channel, in NCHW.
void BackwardPlanes(const BackwardOperands& of, const ChannelRows& rows) {
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    const int64_t begin = r * rows.pixels, end = begin + rows.pixels;
    const float factor = of.b[r];
    of.db.Put(r, DotProduct(of.a + begin, of.dy + begin, rows.pixels));
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) of.da.Put(i, of.dy[i] * factor);
  }
}

// The same in NHWC. `sums` has room for the channels of an image.
void BackwardPixels(const BackwardOperands& of, const ChannelRows& rows, float* sums) {
  for (int64_t n = 0; n < rows.images; ++n) {
    const float* const factors = of.b + n * rows.channels;
    std::fill_n(sums, rows.channels, 0.0F);
    for (int64_t p = 0; p < rows.pixels; ++p) {
      const int64_t begin = (n * rows.pixels + p) * rows.channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < rows.channels; ++c) {
        const float gradient = of.dy[begin + c];
        sums[c] += gradient * of.a[begin + c];
        of.da.Put(begin + c, gradient * factors[c]);
      }
    }
    for (int64_t c = 0; c < rows.channels; ++c) of.db.Put(n * rows.channels + c, sums[c]);
  }
}

void Backward(const LoopArgs& args) {
  const auto [rows, per_channel] = FactorsOf(args.signature);
  const BackwardOperands of(args);
  if (!per_channel) return BackwardElementwise(of, args.Elements(Dy()));
  if (!rows.channels_last) return BackwardPlanes(of, rows);
  BackwardPixels(of, rows, args.Workspace<float>());
}

}  // namespace

absl::StatusOr<Candidates> MultiplyForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> MultiplyBackward(const StepSignature& signature) {
  const auto [rows, per_channel] = FactorsOf(signature);
  const int64_t sums = per_channel && rows.channels_last ? rows.channels : 0;
  return OwnLoop(signature, Backward, sums * static_cast<int64_t>(sizeof(float)));
}

}  // namespace neap::cpu
