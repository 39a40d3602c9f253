#include "neap/layers/crop.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

// offset + size <= whole, without overflow.
bool Fits(int64_t offset, int64_t size, int64_t whole) {
  return offset >= 0 && size >= 1 && size <= whole && offset <= whole - size;
}

}  // namespace

std::string Crop::Parameters() const { return ParameterText({{"size", size}, {"offset", offset}}); }

absl::StatusOr<LayerSpec> Crop::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  if (!Fits(offset.h, size.h, x.shape.h()) || !Fits(offset.w, size.w, x.shape.w())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot cut ", size.h, "x", size.w, " at ",
                                                   offset.h, ",", offset.w, " out of the image ",
                                                   x.shape.h(), "x", x.shape.w()));
  }
  LayerSpec spec = {.output = WithShape(x, {x.shape.n(), x.shape.c(), size.h, size.w}),
                    .traits = {.independent_images = true}};
  spec.steps.push_back({.reads = {X()}, .writes = {Y()}});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData, .reads = {Dy()}, .writes = {Dx()}});
  return spec;
}

}  // namespace neap
