// How many elements constants may have in all: a small file may state a large shape, or compute
// with one constant many times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/tensor.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

class ConstantBudget {
 public:
  // Elements that are computed, or read again. Errors: UNIMPLEMENTED if they are too many for what
  // has been read of the file, or would be with an extent of 1 in the place of 0, and for more axes
  // than a network needs; INVALID_ARGUMENT for a negative extent.
  absl::Status Add(const std::vector<int64_t>& dims) {
    constexpr size_t kMaxAxes = 64;
    if (dims.size() > kMaxAxes)
      return absl::UnimplementedError(absl::StrCat("a constant has ", dims.size(), " axes"));
    int64_t count = 1, without_zeros = 1;
    for (const int64_t extent : dims) {
      if (extent < 0) return absl::InvalidArgumentError("a constant has a negative extent");
      count = SaturatingProduct(count, extent);
      without_zeros = SaturatingProduct(without_zeros, std::max<int64_t>(extent, 1));
    }
    constexpr int64_t kMaxTimes = 16;
    constexpr int64_t kAlways = int64_t{1} << 26;
    constexpr int64_t kAlwaysOfOne = int64_t{1} << 24;
    const bool fits = without_zeros <= kAlwaysOfOne + kMaxTimes * read_ &&
                      count <= kAlways + kMaxTimes * read_ - used_;
    if (fits) {
      used_ += count;
      return absl::OkStatus();
    }
    return absl::UnimplementedError(absl::StrCat("constants of more than ", used_,
                                                 " values are computed of the file's ", read_));
  }
  // Elements of a tensor that have been read from the file.
  void Read(const onnx_schema::Tensor& tensor, int64_t count) {
    if (tensors_.insert(&tensor).second) read_ += count;
  }

 private:
  int64_t read_ = 0;
  int64_t used_ = 0;
  absl::flat_hash_set<const onnx_schema::Tensor*> tensors_;
};

}  // namespace neap::nets
