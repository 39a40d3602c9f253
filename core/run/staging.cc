#include "neap/core/run/staging.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

// The spec of all parts of the batch together, each with the same one.
TensorSpec OfWholeBatch(const Program& program, const std::vector<TensorId>& parts) {
  TensorSpec whole = program.tensor(parts.front()).spec;
  auto dims = whole.shape.dims();
  dims[0] *= static_cast<int64_t>(parts.size());
  whole.shape = Shape(std::move(dims));
  return whole;
}

// Adds a value for each part of the batch, all of which lie in `whole` one after another.
void AddParts(const Program& program, const std::vector<TensorId>& parts, const Buffer& whole,
              std::vector<Executor::HostValue>& values) {
  const std::byte* data = whole.data();
  for (TensorId part : parts) {
    const int64_t bytes = program.tensor(part).spec.size_bytes();
    values.push_back({part, data, bytes});
    data += bytes;
  }
}

absl::Status CheckSizes(const Batch& batch, const TensorSpec& images, const TensorSpec& labels) {
  const bool fits = static_cast<int64_t>(batch.images.size()) == images.elements() &&
                    static_cast<int64_t>(batch.labels.size()) == labels.elements() &&
                    (batch.size == 0 || batch.size == images.shape.n());
  if (fits) return absl::OkStatus();
  const std::string size = batch.size == 0 ? "" : absl::StrCat(batch.size, " images, ");
  return absl::InvalidArgumentError(
      absl::StrCat("the batch has ", size, batch.labels.size(), " labels and ", batch.images.size(),
                   " image values; the network's input is ", images.shape.ToString(),
                   ", its labels ", labels.shape.ToString()));
}

// "image 3", or "the pixel at row 1, column 2 of image 3".
std::string PlaceOf(int64_t index, const Shape& labels) {
  if (labels.rank() == 1) return absl::StrCat("image ", index);
  const int64_t width = labels[2], pixels = labels[1] * width;
  return absl::StrCat("the pixel at row ", index % pixels / width, ", column ", index % width,
                      " of image ", index / pixels);
}

absl::Status CheckLabels(const std::vector<int32_t>& labels, const Shape& shape, int64_t classes) {
  const auto wrong = std::find_if(labels.begin(), labels.end(), [classes](int32_t label) {
    return label != kNoLabel && (label < 0 || label >= classes);
  });
  if (wrong == labels.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the batch labels ", PlaceOf(wrong - labels.begin(), shape), " with ", *wrong,
                   "; the network has ", classes, " classes, from 0"));
}

absl::Status CheckBatch(const Batch& batch, const Program& program) {
  const TensorSpec labels = OfWholeBatch(program, program.labels);
  RETURN_IF_ERROR(CheckSizes(batch, OfWholeBatch(program, program.images), labels));
  return CheckLabels(batch.labels, labels.shape,
                     program.tensor(program.predictions.front()).spec.shape.c());
}

}  // namespace

PerImage ValuesPerImage(const Program& program) {
  const int64_t images = program.net.batch / program.options.sub_batches;
  return {.values = program.tensor(program.images.front()).spec.elements() / images,
          .labels = program.tensor(program.labels.front()).spec.elements() / images};
}

absl::StatusOr<int64_t> ImagesIn(const Batch& batch, const Program& program) {
  const PerImage per_image = ValuesPerImage(program);
  const auto count = static_cast<int64_t>(batch.labels.size()) / per_image.labels;
  const bool fits = 1 <= count && count <= program.net.batch &&
                    static_cast<int64_t>(batch.images.size()) == count * per_image.values &&
                    static_cast<int64_t>(batch.labels.size()) == count * per_image.labels &&
                    (batch.size == 0 || batch.size == count);
  if (fits) return count;
  const std::string size = batch.size == 0 ? "" : absl::StrCat(batch.size, " images, ");
  return absl::InvalidArgumentError(absl::StrCat(
      "the batch has ", size, batch.images.size(), " image values and ", batch.labels.size(),
      " labels; the network takes 1 to ", program.net.batch, " images of ", per_image.values,
      " values with ", per_image.labels, per_image.labels == 1 ? " label each" : " labels each"));
}

Batch FilledUp(const Batch& batch, const Program& program) {
  const PerImage per_image = ValuesPerImage(program);
  Batch whole = batch;
  whole.size = program.net.batch;
  whole.images.resize(static_cast<size_t>(whole.size * per_image.values));
  whole.labels.resize(static_cast<size_t>(whole.size * per_image.labels), kNoLabel);
  return whole;
}

absl::StatusOr<Staging> Staging::Create(const Program& program, Device& device) {
  Staging staging(device);
  for (const auto& [buffer, bytes] :
       {std::pair(&staging.images_, OfWholeBatch(program, program.images).size_bytes()),
        std::pair(&staging.labels_, OfWholeBatch(program, program.labels).size_bytes()),
        std::pair(&staging.iteration_, kIterationScalarsBytes),
        std::pair(&staging.metrics_, program.tensor(program.metrics).spec.size_bytes()),
        std::pair(&staging.loss_scale_,
                  program.loss_scale.has_value() ? int64_t{sizeof(LossScale)} : 0)}) {
    ASSIGN_OR_RETURN(*buffer, device.Allocate(MemoryKind::kPinnedHost, bytes));
  }
  return staging;
}

absl::Status Staging::Send(const Batch& batch, const IterationScalars& scalars,
                           const Program& program, Executor& executor) {
  RETURN_IF_ERROR(CheckBatch(batch, program));
  FromNchw(batch.images, OfWholeBatch(program, program.images), images_.data());
  std::memcpy(labels_.data(), batch.labels.data(), batch.labels.size() * sizeof(int32_t));
  std::memcpy(iteration_.data(), &scalars, sizeof(scalars));
  std::vector<Executor::HostValue> values;
  AddParts(program, program.images, images_, values);
  AddParts(program, program.labels, labels_, values);
  AddParts(program, {program.iteration}, iteration_, values);
  return executor.Send(values);
}

absl::Status Staging::Receive(const Program& program, const Executor& executor) {
  RETURN_IF_ERROR(device_->Copy(Stream::kCompute, metrics_.data(),
                                executor.Address(program.metrics), metrics_.size_bytes()));
  receives_loss_scale_ = program.loss_scale.has_value() && program.options.mode == Mode::kTraining;
  if (receives_loss_scale_) {
    RETURN_IF_ERROR(device_->Copy(Stream::kCompute, loss_scale_.data(),
                                  executor.Address(*program.loss_scale), loss_scale_.size_bytes()));
  }
  ASSIGN_OR_RETURN(done_, device_->Record(Stream::kCompute));
  return absl::OkStatus();
}

absl::StatusOr<Staging::Received> Staging::Await() {
  RETURN_IF_ERROR(device_->Await(done_));
  std::array<float, 2> metrics = {};
  std::memcpy(metrics.data(), metrics_.data(), sizeof(metrics));
  Received received = {.loss = metrics[0], .correct = static_cast<int64_t>(metrics[1])};
  if (receives_loss_scale_)
    std::memcpy(&received.loss_scale.emplace(), loss_scale_.data(), sizeof(LossScale));
  return received;
}

}  // namespace neap
