#include "neap/core/run/staging.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/source.h"

namespace neap {
namespace {

// The spec of all parts of the batch together, which differ only in their number of images.
TensorSpec OfWholeBatch(const Program& program, const std::vector<TensorId>& parts) {
  TensorSpec whole = program.tensor(parts.front()).spec;
  auto dims = whole.shape.dims();
  dims[0] = program.net.batch;
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

// The images of the parts of the batch, which lie in the device's memory one after another.
std::vector<Executor::DeviceValue> PartsOnDevice(const Program& program, const float* images) {
  std::vector<Executor::DeviceValue> values;
  for (TensorId part : program.images) {
    values.push_back({part, program.tensor(part).spec, images});
    images += values.back().spec.elements();
  }
  return values;
}

absl::Status CheckBorrowed(const Batch& batch) {
  if (!batch.on_device || !batch.borrowed.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("the batch is on the device, but has no borrowed images there");
}

bool ReadsTargets(const Program& program) {
  return program.tensor(program.labels.front()).spec.dtype == DType::kFp32;
}

// Whether the batch has what the loss of `images` images needs: labels, or for a network that reads
// targets, either of them.
bool FitLabels(const Batch& batch, const PerImage& per_image, int64_t images) {
  const int64_t labels = std::ssize(batch.labels), targets = std::ssize(batch.targets);
  if (targets == 0) return labels == images * per_image.labels;
  return labels == 0 && targets == images * per_image.targets;
}

// "12 labels", "120 targets"
std::string AmountOfLabels(const Batch& batch) {
  if (batch.targets.empty()) return absl::StrCat(batch.labels.size(), " labels");
  const std::string targets = absl::StrCat(batch.targets.size(), " targets");
  return batch.labels.empty() ? targets : absl::StrCat(batch.labels.size(), " labels, ", targets);
}

absl::Status CheckSizes(const Batch& batch, const TensorSpec& images, const TensorSpec& labels,
                        const PerImage& per_image) {
  const int64_t values = std::ssize(ImagesOf(batch));
  const bool fits = values == images.elements() && FitLabels(batch, per_image, images.shape.n()) &&
                    (batch.size == 0 || batch.size == images.shape.n());
  if (fits) return absl::OkStatus();
  const std::string size = batch.size == 0 ? "" : absl::StrCat(batch.size, " images, ");
  return absl::InvalidArgumentError(
      absl::StrCat("the batch has ", size, AmountOfLabels(batch), " and ", values,
                   " image values; the network's input is ", images.shape.ToString(), ", its ",
                   per_image.targets == 0 ? "labels " : "targets ", labels.shape.ToString()));
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

Shape PredictionShape(const Program& program) {
  return OfWholeBatch(program, program.predictions).shape;
}

absl::Status CheckBatch(const Batch& batch, const Program& program) {
  RETURN_IF_ERROR(CheckBorrowed(batch));
  RETURN_IF_ERROR(CheckSizes(batch, OfWholeBatch(program, program.images),
                             OfWholeBatch(program, program.labels), ValuesPerImage(program)));
  const Shape predictions = PredictionShape(program);
  const bool has_labels = std::any_of(batch.labels.begin(), batch.labels.end(),
                                      [](int32_t label) { return label != kNoLabel; });
  if (ReadsTargets(program) && predictions.c() == 1 && has_labels) {
    return absl::InvalidArgumentError(
        "labels cannot stand for the targets of one channel; give targets (floats)");
  }
  const Shape labels =
      ReadsTargets(program) ? LabelShape(predictions) : OfWholeBatch(program, program.labels).shape;
  return CheckLabels(batch.labels, labels, predictions.c());
}

// In N, C, H, W order, the targets that stand for labels.
std::vector<float> TargetsOf(const std::vector<int32_t>& labels, const Shape& predictions) {
  const int64_t classes = predictions.c(), pixels = predictions.h() * predictions.w();
  std::vector<float> targets(static_cast<size_t>(predictions.elements()));
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<int64_t>(i);
    const int64_t first = label / pixels * classes * pixels + label % pixels;
    for (int64_t c = 0; c < classes; ++c) {
      const float target = labels[i] == c ? 1.0F : 0.0F;
      targets[static_cast<size_t>(first + c * pixels)] = labels[i] == kNoLabel ? kNoTarget : target;
    }
  }
  return targets;
}

void SendLabels(const Batch& batch, const Program& program, std::byte* labels) {
  if (!ReadsTargets(program)) {
    std::memcpy(labels, batch.labels.data(), batch.labels.size() * sizeof(int32_t));
    return;
  }
  std::vector<float> of_labels;
  if (batch.targets.empty()) of_labels = TargetsOf(batch.labels, PredictionShape(program));
  FromNchw(batch.targets.empty() ? of_labels : batch.targets, OfWholeBatch(program, program.labels),
           labels);
}

}  // namespace

PerImage ValuesPerImage(const Program& program) {
  const TensorSpec& labels = program.tensor(program.labels.front()).spec;
  const int64_t images = program.tensor(program.images.front()).spec.shape.n();
  PerImage per_image = {.values = program.tensor(program.images.front()).spec.elements() / images,
                        .labels = labels.elements() / images};
  if (ReadsTargets(program)) {
    per_image.targets = per_image.labels;
    per_image.labels = LabelShape(labels.shape).elements() / images;
  }
  return per_image;
}

absl::StatusOr<int64_t> ImagesIn(const Batch& batch, const Program& program) {
  const PerImage per_image = ValuesPerImage(program);
  const int64_t values = std::ssize(ImagesOf(batch)), count = values / per_image.values;
  const bool fits = 1 <= count && count <= program.net.batch &&
                    values == count * per_image.values && FitLabels(batch, per_image, count) &&
                    (batch.size == 0 || batch.size == count);
  if (fits) return count;
  const std::string size = batch.size == 0 ? "" : absl::StrCat(batch.size, " images, ");
  return absl::InvalidArgumentError(absl::StrCat(
      "the batch has ", size, values, " image values and ", AmountOfLabels(batch),
      "; the network takes 1 to ", program.net.batch, " images of ", per_image.values,
      " values with ", per_image.labels, per_image.labels == 1 ? " label" : " labels",
      per_image.targets == 0 ? "" : absl::StrCat(" or ", per_image.targets, " targets"), " each"));
}

absl::StatusOr<Batch> FilledUp(const Batch& batch, const Program& program) {
  if (batch.on_device) {
    return absl::InvalidArgumentError(
        absl::StrCat("images in the device's memory must be as many as the network's batch, ",
                     program.net.batch));
  }
  const PerImage per_image = ValuesPerImage(program);
  const absl::Span<const float> images = ImagesOf(batch);
  Batch whole = {.images = {images.begin(), images.end()},
                 .labels = batch.labels,
                 .size = program.net.batch,
                 .targets = batch.targets};
  whole.images.resize(static_cast<size_t>(whole.size * per_image.values));
  if (batch.targets.empty()) {
    whole.labels.resize(static_cast<size_t>(whole.size * per_image.labels), kNoLabel);
  } else {
    whole.targets.resize(static_cast<size_t>(whole.size * per_image.targets), kNoTarget);
  }
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
  SendLabels(batch, program, labels_.data());
  std::memcpy(iteration_.data(), &scalars, sizeof(scalars));
  std::vector<Executor::HostValue> values;
  std::vector<Executor::DeviceValue> on_device;
  if (batch.on_device) {
    on_device = PartsOnDevice(program, ImagesOf(batch).data());
  } else {
    FromNchw(ImagesOf(batch), OfWholeBatch(program, program.images), images_.data());
    AddParts(program, program.images, images_, values);
  }
  AddParts(program, program.labels, labels_, values);
  AddParts(program, {program.iteration}, iteration_, values);
  return executor.Send(values, on_device);
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
