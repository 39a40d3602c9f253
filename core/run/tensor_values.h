// Values of a session's persistent tensors, on their way between the host and the device. Private
// to the session.
//
// On the host they are numbers in N, C, H, W order. The device has them in the tensor's own layout;
// an image is those bytes in pinned memory, from where a copy can take them.
//
//   std::vector<TensorImage> images;
//   ASSIGN_OR_RETURN(images.emplace_back(), MakeImage(tensor, values, device));
//   RETURN_IF_ERROR(WriteImages(images, executor, device));
//   ASSIGN_OR_RETURN(std::vector<float> read, ReadValues(tensor, executor, device));  // == values
//
// All wait until the device has copied. *Errors*: those of the device.
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
// All of them, or an error after which some may have been written.
absl::Status WriteImages(const std::vector<TensorImage>& images, const Executor& executor,
                         Device& device);
absl::StatusOr<std::vector<float>> ReadValues(const Tensor& tensor, const Executor& executor,
                                              Device& device);

}  // namespace neap
