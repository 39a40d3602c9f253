// Chosen tensors as text, for tests of segments and policies to compare.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/program/program.h"

namespace neap::testing {

// The names of the tensors that are true in `tensors`, which is by TensorId: "conv1 relu1".
inline std::string NamesOf(const Program& program, const std::vector<bool>& tensors) {
  std::string text;
  for (const Tensor& tensor : program.tensors) {
    if (tensors[tensor.id.index()]) absl::StrAppend(&text, text.empty() ? "" : " ", tensor.name);
  }
  return text;
}

}  // namespace neap::testing
