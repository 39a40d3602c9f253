// Host memory for the data that one iteration sends and receives, and the copies to and from the
// device. Private to the session.
//
//   Staging staging(device);
//   RETURN_IF_ERROR(staging.Reserve(program));
//   RETURN_IF_ERROR(staging.Send(feeds, scalars, program, executor));  // then executor.Run()
//   RETURN_IF_ERROR(staging.Receive(program, executor));
//   ASSIGN_OR_RETURN(Staging::Received received, staging.Await());
//
// It may be reused after Await(). *Ownership*: borrows the device. *Streams*: those of
// Executor::Send(), and compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/program/feeds.h"
#include "neap/core/program/program.h"
#include "neap/core/run/executor.h"
#include "neap/core/run/session_results.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/loss_scale.h"

namespace neap {

class Staging {
 public:
  explicit Staging(Device& device) : device_(&device) {}

  // Makes room for the feeds, losses and outputs of a program, in addition to those of others.
  // Send() makes room, too, where there is none.
  absl::Status Reserve(const Program& program);

  // Enqueues the copy of the feeds to the device, or within it; no persistent tensor is changed.
  // Examples that are missing in inference are zeros, without labels or targets. Errors: those of
  // ExamplesIn() and the device.
  absl::Status Send(const Feeds& feeds, const IterationScalars& scalars, const Program& program,
                    Executor& executor);
  // The same for a program without feeds. Waits until the iteration before has received them.
  absl::Status SendScalars(const IterationScalars& scalars, const Program& program,
                           Executor& executor);
  // Enqueues the copy of the outputs to the host, for an iteration that has paused.
  absl::Status ReceiveOutputs(const Program& program, const Executor& executor);
  // Blocks until they have arrived.
  absl::StatusOr<std::vector<NamedTensor>> AwaitOutputs();
  // Enqueues the rest of an iteration that has paused, with gradients that have passed
  // CheckGivenGradients(), each times `loss_scale`.
  absl::Status Resume(const Feeds& gradients, float loss_scale, const Program& program,
                      Executor& executor);
  // Enqueues the copy of the iteration's results to the host: in training, with the loss scale.
  // Outputs are not among them if the iteration has paused.
  absl::Status Receive(const Program& program, const Executor& executor);
  struct Received {
    std::vector<LossResult> losses;       // in the program's order
    std::vector<NamedTensor> outputs;     // of the whole batch; none if the iteration has paused
    std::optional<LossScale> loss_scale;  // after the iteration; nullopt if the loss is not scaled
  };
  // Blocks until the results have arrived.
  absl::StatusOr<Received> Await();

 private:
  absl::Status CopyOutputs(const Program& program, const Executor& executor);
  std::vector<NamedTensor> TakeOutputs();
  // Of at least so many bytes.
  absl::Status Reserve(int64_t bytes, Buffer& buffer);
  absl::Status Receive(TensorId tensor, const Program& program, const Executor& executor,
                       std::byte* place) const;

  Device* device_;
  absl::flat_hash_map<std::string, Buffer> feeds_, metrics_, outputs_, gradients_;
  Buffer iteration_, loss_scale_;
  // Of the iteration that was enqueued last.
  std::vector<LossResult> awaited_losses_;
  std::vector<std::pair<std::string, TensorSpec>> awaited_outputs_;
  bool receives_loss_scale_ = false;
  Event done_;
};

// The losses and outputs, with the sum of the losses. The caller fills in the rest.
StepResult ResultOf(Staging::Received received);

}  // namespace neap
