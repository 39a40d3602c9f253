#include "neap/core/run/staging.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

// Adds a value for each part of the port, all of which lie in `whole` one after another.
void AddParts(const Program& program, const std::vector<TensorId>& parts, const Buffer& whole,
              std::vector<Executor::HostValue>& values) {
  const std::byte* data = whole.data();
  for (TensorId part : parts) {
    const int64_t bytes = program.tensor(part).spec.size_bytes();
    values.push_back({part, data, bytes});
    data += bytes;
  }
}

// The same for values that lie in the device's memory.
void AddPartsOnDevice(const Program& program, const Port& feed, const float* floats,
                      std::vector<Executor::DeviceValue>& values) {
  for (TensorId part : feed.parts) {
    values.push_back({part, program.tensor(part).spec, floats});
    floats += values.back().spec.elements();
  }
}

// Zeros, or for a target the values that say that there is none.
void FillMissing(const TensorSpec& spec, bool is_target, std::byte* first, std::byte* end) {
  std::memset(first, 0, static_cast<size_t>(end - first));
  if (!is_target) return;
  if (spec.dtype == DType::kInt32) {
    std::fill(reinterpret_cast<int32_t*>(first), reinterpret_cast<int32_t*>(end), kNoLabel);
  } else if (spec.dtype == DType::kFp32) {
    std::fill(reinterpret_cast<float*>(first), reinterpret_cast<float*>(end), kNoTarget);
  }
}

// Writes what is given of the feed, and fills up the batch.
void Store(const FeedValue* value, int64_t examples, const TensorSpec& spec, bool is_target,
           const Buffer& buffer) {
  std::byte* const first = buffer.data();
  int64_t bytes = 0;
  if (value != nullptr) {
    const TensorSpec given = WithFirstExtent(spec, examples);
    bytes = given.size_bytes();
    if (spec.dtype == DType::kInt32) {
      std::memcpy(first, value->integers.data(), static_cast<size_t>(bytes));
    } else {
      FromNchw(value->floats, given, first);
    }
  }
  FillMissing(spec, is_target, first + bytes, first + spec.size_bytes());
}

}  // namespace

absl::Status Staging::Reserve(int64_t bytes, Buffer& buffer) {
  if (buffer.size_bytes() >= bytes) return absl::OkStatus();
  ASSIGN_OR_RETURN(buffer, device_->Allocate(MemoryKind::kPinnedHost, bytes));
  return absl::OkStatus();
}

absl::Status Staging::Reserve(const Program& program) {
  for (const Port& feed : program.feeds)
    RETURN_IF_ERROR(Reserve(program.SpecOf(feed).size_bytes(), feeds_[feed.name]));
  for (const Port& output : program.outputs) {
    const int64_t bytes = program.SpecOf(output).size_bytes();
    RETURN_IF_ERROR(Reserve(bytes, outputs_[output.name]));
    if (output.gradient.has_value()) RETURN_IF_ERROR(Reserve(bytes, gradients_[output.name]));
  }
  for (const LossPort& loss : program.losses)
    RETURN_IF_ERROR(Reserve(program.tensor(loss.metrics).spec.size_bytes(), metrics_[loss.name]));
  RETURN_IF_ERROR(Reserve(kIterationScalarsBytes, iteration_));
  if (!program.loss_scale.has_value()) return absl::OkStatus();
  return Reserve(int64_t{sizeof(LossScale)}, loss_scale_);
}

absl::Status Staging::Send(const Feeds& feeds, const IterationScalars& scalars,
                           const Program& program, Executor& executor) {
  ASSIGN_OR_RETURN(const int64_t examples, ExamplesIn(feeds, program));
  RETURN_IF_ERROR(Reserve(program));
  std::memcpy(iteration_.data(), &scalars, sizeof(scalars));
  std::vector<Executor::HostValue> values;
  std::vector<Executor::DeviceValue> on_device;
  for (const Port& feed : program.feeds) {
    const FeedValue* const value = FindFeed(feeds, feed.name);
    if (value != nullptr && value->on_device) {
      AddPartsOnDevice(program, feed, value->floats.data(), on_device);
      continue;
    }
    const Buffer& buffer = feeds_.at(feed.name);
    Store(value, examples, program.SpecOf(feed), program.IsTarget(feed), buffer);
    AddParts(program, feed.parts, buffer, values);
  }
  AddParts(program, {program.iteration}, iteration_, values);
  return executor.Send(values, on_device);
}

absl::Status Staging::SendScalars(const IterationScalars& scalars, const Program& program,
                                  Executor& executor) {
  if (done_ != nullptr) RETURN_IF_ERROR(device_->Await(done_));
  RETURN_IF_ERROR(Reserve(program));
  std::memcpy(iteration_.data(), &scalars, sizeof(scalars));
  std::vector<Executor::HostValue> values;
  AddParts(program, {program.iteration}, iteration_, values);
  return executor.Send(values);
}

absl::Status Staging::Receive(TensorId tensor, const Program& program, const Executor& executor,
                              std::byte* place) const {
  return device_->Copy(Stream::kCompute, place, executor.Address(tensor),
                       program.tensor(tensor).spec.size_bytes());
}

absl::Status Staging::Receive(const Program& program, const Executor& executor) {
  awaited_losses_.clear();
  for (const LossPort& loss : program.losses) {
    awaited_losses_.push_back(
        {.name = loss.name, .weight = loss.weight, .is_auxiliary = loss.is_auxiliary});
    RETURN_IF_ERROR(Receive(loss.metrics, program, executor, metrics_.at(loss.name).data()));
  }
  awaited_outputs_.clear();
  if (!program.Pauses()) RETURN_IF_ERROR(CopyOutputs(program, executor));
  receives_loss_scale_ = program.loss_scale.has_value() && program.options.mode == Mode::kTraining;
  if (receives_loss_scale_)
    RETURN_IF_ERROR(Receive(*program.loss_scale, program, executor, loss_scale_.data()));
  ASSIGN_OR_RETURN(done_, device_->Record(Stream::kCompute));
  return absl::OkStatus();
}

absl::Status Staging::CopyOutputs(const Program& program, const Executor& executor) {
  for (const Port& output : program.outputs) {
    awaited_outputs_.emplace_back(output.name, program.SpecOf(output));
    std::byte* place = outputs_.at(output.name).data();
    for (TensorId part : output.parts) {
      RETURN_IF_ERROR(Receive(part, program, executor, place));
      place += program.tensor(part).spec.size_bytes();
    }
  }
  return absl::OkStatus();
}

absl::Status Staging::ReceiveOutputs(const Program& program, const Executor& executor) {
  awaited_outputs_.clear();
  RETURN_IF_ERROR(CopyOutputs(program, executor));
  ASSIGN_OR_RETURN(done_, device_->Record(Stream::kCompute));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedTensor>> Staging::AwaitOutputs() {
  RETURN_IF_ERROR(device_->Await(done_));
  return TakeOutputs();
}

absl::Status Staging::Resume(const Feeds& gradients, float loss_scale, const Program& program,
                             Executor& executor) {
  std::vector<Executor::HostValue> values;
  std::vector<Executor::DeviceValue> on_device;
  for (const Port& output : program.outputs) {
    if (!output.gradient.has_value()) continue;
    const FeedValue& given = *FindFeed(gradients, output.name);
    const TensorSpec& spec = program.tensor(*output.gradient).spec;
    if (given.on_device) {
      on_device.push_back({*output.gradient, spec, given.floats.data()});
      continue;
    }
    std::vector<float> scaled(given.floats.begin(), given.floats.end());
    for (float& value : scaled) value *= loss_scale;
    const Buffer& buffer = gradients_.at(output.name);
    FromNchw(scaled, spec, buffer.data());
    values.push_back({*output.gradient, buffer.data(), spec.size_bytes()});
  }
  return executor.Resume(values, on_device);
}

absl::StatusOr<Staging::Received> Staging::Await() {
  RETURN_IF_ERROR(device_->Await(done_));
  Received received = {.losses = awaited_losses_};
  for (LossResult& loss : received.losses) {
    std::array<float, 2> metrics = {};
    std::memcpy(metrics.data(), metrics_.at(loss.name).data(), sizeof(metrics));
    loss.loss = metrics[0];
    loss.correct = static_cast<int64_t>(metrics[1]);
  }
  received.outputs = TakeOutputs();
  if (receives_loss_scale_)
    std::memcpy(&received.loss_scale.emplace(), loss_scale_.data(), sizeof(LossScale));
  return received;
}

std::vector<NamedTensor> Staging::TakeOutputs() {
  std::vector<NamedTensor> outputs;
  for (const auto& [name, spec] : awaited_outputs_) {
    NamedTensor output = {.name = name, .shape = spec.shape};
    output.values.resize(static_cast<size_t>(spec.elements()));
    ToNchw(outputs_.at(name).data(), spec, absl::MakeSpan(output.values));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

StepResult ResultOf(Staging::Received received) {
  StepResult result = {.losses = std::move(received.losses),
                       .outputs = std::move(received.outputs)};
  for (const LossResult& loss : result.losses) result.loss += loss.weight * loss.loss;
  const auto main = std::find_if(result.losses.begin(), result.losses.end(),
                                 [](const LossResult& loss) { return !loss.is_auxiliary; });
  if (main == result.losses.end()) return result;
  result.correct = main->correct;
  result.labels = main->labels;
  result.counted = main->counted;
  return result;
}

}  // namespace neap
