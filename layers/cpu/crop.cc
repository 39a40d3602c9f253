// Crop, and ZeroPad, which is the same in the other direction.
#include "neap/layers/crop.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/zero_pad.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Calls f(offset in the whole image, offset in the part, elements) for each run of memory that both
// contain. The part begins at `offset` in the whole. The offsets given to f are in elements.
template <typename F>
void ForEachRow(const TensorSpec& whole, const TensorSpec& part, Extents offset, F f) {
  const bool last = whole.layout == Layout::kChannelsLast;
  const int64_t images = last ? whole.shape.n() : whole.shape.n() * whole.shape.c();
  const int64_t pixel = last ? whole.shape.c() : 1;
  const int64_t run = part.shape.w() * pixel;
  const int64_t planes = part.shape.d(), rows = part.shape.h();
  const int64_t front = offset.d(whole.shape.spatial_axes(), 0);
  for (int64_t row = 0; row < images * planes * rows; ++row) {
    const int64_t plane = row / rows, image = plane / planes;
    const int64_t from_plane = image * whole.shape.d() + front + plane % planes;
    const int64_t from = from_plane * whole.shape.h() + offset.h() + row % rows;
    f((from * whole.shape.w() + offset.w()) * pixel, row * run, run);
  }
}

void CutOut(const LoopArgs& args, Operand whole, Operand part, Extents offset) {
  const float* const from = args.Get<float>(whole);
  float* const to = args.Get<float>(part);
  ForEachRow(args.signature.Spec(whole), args.signature.Spec(part), offset,
             [&](int64_t in_whole, int64_t in_part, int64_t run) {
               std::copy_n(from + in_whole, run, to + in_part);
             });
}

// Writes 0 outside the part.
void Surround(const LoopArgs& args, Operand part, Operand whole, Extents offset) {
  const float* const from = args.Get<float>(part);
  float* const to = args.Get<float>(whole);
  std::fill_n(to, args.signature.Spec(whole).elements(), 0.0F);
  ForEachRow(args.signature.Spec(whole), args.signature.Spec(part), offset,
             [&](int64_t in_whole, int64_t in_part, int64_t run) {
               std::copy_n(from + in_part, run, to + in_whole);
             });
}

void RunCropForward(const LoopArgs& args) {
  CutOut(args, X(), Y(), args.signature.layer.As<Crop>()->offset);
}
void RunCropBackward(const LoopArgs& args) {
  Surround(args, Dy(), Dx(), args.signature.layer.As<Crop>()->offset);
}

void RunZeroPadForward(const LoopArgs& args) {
  Surround(args, X(), Y(), args.signature.layer.As<ZeroPad>()->offset());
}
void RunZeroPadBackward(const LoopArgs& args) {
  CutOut(args, Dy(), Dx(), args.signature.layer.As<ZeroPad>()->offset());
}

}  // namespace

absl::StatusOr<Candidates> CropForward(const StepSignature& signature) {
  return OwnLoop(signature, RunCropForward);
}
absl::StatusOr<Candidates> CropBackward(const StepSignature& signature) {
  return OwnLoop(signature, RunCropBackward);
}
absl::StatusOr<Candidates> ZeroPadForward(const StepSignature& signature) {
  return OwnLoop(signature, RunZeroPadForward);
}
absl::StatusOr<Candidates> ZeroPadBackward(const StepSignature& signature) {
  return OwnLoop(signature, RunZeroPadBackward);
}

}  // namespace neap::cpu
