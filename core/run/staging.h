// Host memory for the data that one iteration sends and receives, and the copies to and from the
// device. Private to the session.
//
//   ASSIGN_OR_RETURN(Staging staging, Staging::Create(program, device));
//   RETURN_IF_ERROR(staging.Send(batch, scalars, program, executor));  // then executor.Run()
//   RETURN_IF_ERROR(staging.Receive(program, executor));
//   ASSIGN_OR_RETURN(Staging::Received received, staging.Await());
//
// It may be reused after Await(). *Ownership*: borrows the device. *Streams*: those of
// Executor::Send(), and compute.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/input/batch.h"
#include "neap/core/program/program.h"
#include "neap/core/run/executor.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/loss_scale.h"

namespace neap {

// Elements of one image; its labels: one, or one for each pixel; and its targets, 0 if the loss
// reads labels.
struct PerImage {
  int64_t values = 0;
  int64_t labels = 0;
  int64_t targets = 0;
};
PerImage ValuesPerImage(const Program& program);

// The number of images in the batch. Errors: INVALID_ARGUMENT for none or more than the network's
// batch, or if the vectors do not agree with each other or with `size`.
absl::StatusOr<int64_t> ImagesIn(const Batch& batch, const Program& program);

// The batch, a smaller one than the network's, extended by images of zeros without labels or
// targets. Errors: INVALID_ARGUMENT for images in the device's memory.
absl::StatusOr<Batch> FilledUp(const Batch& batch, const Program& program);

class Staging {
 public:
  static absl::StatusOr<Staging> Create(const Program& program, Device& device);

  // Enqueues the copy of the batch to the device, or within it; no persistent tensor is changed.
  // Errors: INVALID_ARGUMENT for a batch of the wrong size, or, naming the image or pixel, for a
  // label that is not one of the network's classes; those of the device.
  absl::Status Send(const Batch& batch, const IterationScalars& scalars, const Program& program,
                    Executor& executor);
  // Enqueues the copy of the iteration's result to the host: in training, with the loss scale.
  absl::Status Receive(const Program& program, const Executor& executor);
  struct Received {
    float loss = 0;
    int64_t correct = 0;
    std::optional<LossScale> loss_scale;  // after the iteration; nullopt if the loss is not scaled
  };
  // Blocks until the result has arrived.
  absl::StatusOr<Received> Await();

 private:
  explicit Staging(Device& device) : device_(&device) {}

  Device* device_;
  Buffer images_, labels_, iteration_, metrics_, loss_scale_;
  bool receives_loss_scale_ = false;  // of the iteration that was enqueued last
  Event done_;
};

}  // namespace neap
