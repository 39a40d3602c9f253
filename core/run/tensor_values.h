// Transfers of the values of a session's persistent tensors between host and device. Private to the
// session.
//
// On the host, values are numbers in N, C, H, W order; on the device they are in the tensor's own
// layout. An image holds the latter bytes in pinned memory, as the source of a copy.
//
//   std::vector<TensorImage> images;
//   ASSIGN_OR_RETURN(images.emplace_back(), MakeImage(tensor, values, device));
//   RETURN_IF_ERROR(WriteImages(images, executor, device));
//   ASSIGN_OR_RETURN(std::vector<float> read, ReadValues(tensor, executor, device));  // == values
//
// Writing and reading wait until the device has copied. *Errors*: those of the device.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/ids.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/core/run/executor.h"

namespace neap {

struct TensorImage {
  TensorId tensor;
  Buffer bytes;
};

absl::StatusOr<TensorImage> MakeImage(const Tensor& tensor, const std::vector<float>& values,
                                      Device& device);
// Writes all images. After an error, some may have been written.
absl::Status WriteImages(const std::vector<TensorImage>& images, const Executor& executor,
                         Device& device);
absl::StatusOr<std::vector<float>> ReadValues(const Tensor& tensor, const Executor& executor,
                                              Device& device);

}  // namespace neap
