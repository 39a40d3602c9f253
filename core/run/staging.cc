#include "neap/core/run/staging.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

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
  const TensorSpec& labels = program.tensor(program.labels).spec;
  RETURN_IF_ERROR(CheckSizes(batch, program.tensor(program.images).spec, labels));
  return CheckLabels(batch.labels, labels.shape,
                     program.tensor(program.predictions).spec.shape.c());
}

}  // namespace

PerImage ValuesPerImage(const Program& program) {
  return {.values = program.tensor(program.images).spec.elements() / program.net.batch,
          .labels = program.tensor(program.labels).spec.elements() / program.net.batch};
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
       {std::pair(&staging.images_, program.tensor(program.images).spec.size_bytes()),
        std::pair(&staging.labels_, program.tensor(program.labels).spec.size_bytes()),
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
  FromNchw(batch.images, program.tensor(program.images).spec, images_.data());
  std::memcpy(labels_.data(), batch.labels.data(), batch.labels.size() * sizeof(int32_t));
  std::memcpy(iteration_.data(), &scalars, sizeof(scalars));
  return executor.Send(
      {{program.images, &images_}, {program.labels, &labels_}, {program.iteration, &iteration_}});
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
