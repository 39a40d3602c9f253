#include "neap/core/run/tensor_values.h"

#include <cstddef>
#include <utility>

#include "absl/types/span.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"

namespace neap {

absl::StatusOr<TensorImage> MakeImage(const Tensor& tensor, const std::vector<float>& values,
                                      Device& device) {
  ASSIGN_OR_RETURN(Buffer bytes,
                   device.Allocate(MemoryKind::kPinnedHost, tensor.spec.size_bytes()));
  FromNchw(values, tensor.spec, bytes.data());
  return TensorImage{tensor.id, std::move(bytes)};
}

absl::Status WriteImages(const std::vector<TensorImage>& images, const Executor& executor,
                         Device& device) {
  absl::Status status;
  for (const TensorImage& image : images) {
    status.Update(device.Copy(Stream::kCompute, executor.Address(image.tensor), image.bytes.data(),
                              image.bytes.size_bytes()));
  }
  status.Update(device.Synchronize());  // the caller frees the images after this, even on failure
  return status;
}

absl::StatusOr<std::vector<float>> ReadValues(const Tensor& tensor, const Executor& executor,
                                              Device& device) {
  ASSIGN_OR_RETURN(const Buffer buffer,
                   device.Allocate(MemoryKind::kPinnedHost, tensor.spec.size_bytes()));
  RETURN_IF_ERROR(device.Copy(Stream::kCompute, buffer.data(), executor.Address(tensor.id),
                              buffer.size_bytes()));
  RETURN_IF_ERROR(device.Synchronize());
  std::vector<float> values(static_cast<size_t>(tensor.spec.elements()));
  ToNchw(buffer.data(), tensor.spec, absl::MakeSpan(values));
  return values;
}

}  // namespace neap
