#include "neap/layers/cuda/conv/convolution_problem.h"

#include "absl/strings/str_cat.h"

namespace neap {

std::string ConvolutionProblem::ToString() const {
  const auto text = [&](const Extents& extents) { return extents.Along(axes()).ToString(); };
  return absl::StrCat(std::string(Name(phase)), " x ", x.ToString(), " weight ", weight.ToString(),
                      " y ", y.ToString(), " stride ", text(stride), " padding ", text(padding),
                      " dilation ", text(dilation), accumulate ? " accumulated" : "",
                      relu ? " bias relu" : "", half_accumulation ? " added in fp16" : "");
}

}  // namespace neap
