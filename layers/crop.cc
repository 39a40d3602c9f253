#include "neap/layers/crop.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/copy_steps.h"

namespace neap {
namespace {

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
  return CopySteps(WithShape(x, {x.shape.n(), x.shape.c(), size.h, size.w}), context.mode);
}

}  // namespace neap
