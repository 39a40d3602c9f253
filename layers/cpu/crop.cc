#include "neap/layers/crop.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Calls f(offset in the whole image, offset in the crop, elements) for each run of memory that both
// contain. Offsets are in elements.
template <typename F>
void ForEachRow(const Crop& layer, const TensorSpec& whole, F f) {
  const bool last = whole.layout == Layout::kNhwc;
  const int64_t images = last ? whole.shape.n() : whole.shape.n() * whole.shape.c();
  const int64_t pixel = last ? whole.shape.c() : 1;
  const int64_t run = layer.size.w * pixel;
  for (int64_t row = 0; row < images * layer.size.h; ++row) {
    const int64_t image = row / layer.size.h;
    const int64_t from = image * whole.shape.h() + layer.offset.h + row % layer.size.h;
    f((from * whole.shape.w() + layer.offset.w) * pixel, row * run, run);
  }
}

void Forward(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  ForEachRow(
      *args.signature.layer.As<Crop>(), args.signature.Spec(X()),
      [&](int64_t whole, int64_t part, int64_t run) { std::copy_n(x + whole, run, y + part); });
}

void Backward(const LoopArgs& args) {
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  std::fill_n(dx, args.signature.Spec(Dx()).elements(), 0.0F);
  ForEachRow(
      *args.signature.layer.As<Crop>(), args.signature.Spec(Dx()),
      [&](int64_t whole, int64_t part, int64_t run) { std::copy_n(dy + part, run, dx + whole); });
}

}  // namespace

absl::StatusOr<Candidates> CropForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> CropBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward);
}

}  // namespace neap::cpu
