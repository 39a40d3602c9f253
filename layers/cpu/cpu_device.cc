#include "neap/layers/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cpu/copy_queue.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cpu/cpu_description.h"

namespace neap {
namespace {

constexpr Stream kQueuedStreams[] = {Stream::kD2h, Stream::kH2d, Stream::kCollective,
                                     Stream::kInput};

absl::Status Refused(int64_t size_bytes, const std::string& reason) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cpu device: cannot allocate ", size_bytes, " bytes: ", reason));
}

absl::StatusOr<std::chrono::steady_clock::time_point> TimeOf(const Event& event) {
  const auto cpu_event = std::static_pointer_cast<CpuEvent>(event);
  if (cpu_event == nullptr || cpu_event->timing() != Timing::kTimed)
    return absl::InvalidArgumentError("cpu device: ElapsedUs(an event without time)");
  if (!cpu_event->happened())
    return absl::FailedPreconditionError("cpu device: ElapsedUs(an event that has not happened)");
  return cpu_event->time();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Open(CpuDeviceOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeCpuBackend(std::move(options.kernels)));
  DeviceDescription description = DescribeCpu();
  description.rules.Append(options.rules);
  std::unique_ptr<CpuDevice> device(new CpuDevice(std::move(description), std::move(backend)));
  try {
    for (const Stream stream : kQueuedStreams)
      device->queues_[static_cast<size_t>(stream)] = std::make_unique<CopyQueue>();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cpu device: cannot start its copy threads: ", error.what()));
  }
  return device;
}

CpuDevice::CpuDevice(DeviceDescription description, std::unique_ptr<Backend> backend)
    : description_(std::move(description)), backend_(std::move(backend)) {}

CpuDevice::~CpuDevice() {
  for (const std::unique_ptr<CopyQueue>& queue : queues_) {
    if (queue != nullptr) queue->Finish();
  }
}

absl::StatusOr<Buffer> CpuDevice::Allocate(MemoryKind /*kind*/, int64_t size_bytes) {
  RETURN_IF_ERROR(Health());
  if (size_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cpu device: Allocate(", size_bytes, " bytes)"));
  }
  if (size_bytes > description_.memory_bytes) {
    return Refused(size_bytes, absl::StrCat("the machine has ", description_.memory_bytes));
  }
  if (size_bytes == 0) return Buffer();
  const size_t length = static_cast<size_t>(size_bytes);
  void* data =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (data == MAP_FAILED) return Refused(size_bytes, std::strerror(errno));
  return Buffer(data, size_bytes, [length](void* p) { munmap(p, length); });
}

absl::StatusOr<int64_t> CpuDevice::UsedBytes() {
  RETURN_IF_ERROR(Health());
  return ResidentBytes();
}

absl::Status CpuDevice::Copy(Stream stream, void* destination, const void* source,
                             int64_t size_bytes) {
  RETURN_IF_ERROR(Health());
  if (size_bytes < 0 || (size_bytes > 0 && (destination == nullptr || source == nullptr))) {
    return Fail(absl::InternalError(absl::StrFormat(
        "cpu device: Copy(%s, %s, %s, %d bytes)", Name(stream),
        destination == nullptr ? "null" : "to", source == nullptr ? "null" : "from", size_bytes)));
  }
  if (stream != Stream::kCompute) {
    QueueOf(stream).Copy(destination, source, size_bytes);
  } else if (size_bytes > 0) {
    std::memmove(destination, source, static_cast<size_t>(size_bytes));
  }
  return absl::OkStatus();
}

absl::Status CpuDevice::CopyFromNchw(Stream stream, const float* nchw, const TensorSpec& spec,
                                     std::byte* stored) {
  const auto convert = [nchw, spec, stored] {
    FromNchw({nchw, static_cast<size_t>(spec.elements())}, spec, stored);
    return absl::OkStatus();
  };
  if (stream != Stream::kCompute) return Call(stream, convert);
  RETURN_IF_ERROR(Health());
  return convert();
}

absl::Status CpuDevice::Call(Stream stream, std::function<absl::Status()> work) {
  RETURN_IF_ERROR(Health());
  if (stream == Stream::kCompute) {
    return Fail(absl::InternalError("cpu device: Call(compute), whose work is the caller's"));
  }
  QueueOf(stream).Call([this, work = std::move(work)] {
    if (!Health().ok()) return;
    const absl::Status done = work();
    if (!done.ok()) Fail(done).IgnoreError();
  });
  return absl::OkStatus();
}

absl::StatusOr<Event> CpuDevice::Record(Stream stream) { return Record(stream, Timing::kNone); }
absl::StatusOr<Event> CpuDevice::RecordTime(Stream stream) {
  return Record(stream, Timing::kTimed);
}

absl::StatusOr<Event> CpuDevice::Record(Stream stream, Timing timing) {
  RETURN_IF_ERROR(Health());
  if (stream != Stream::kCompute) return Event(QueueOf(stream).Record(timing));
  auto event = std::make_shared<CpuEvent>(timing);
  event->Signal();
  return Event(std::move(event));
}

absl::StatusOr<double> CpuDevice::ElapsedUs(const Event& earlier, const Event& later) {
  RETURN_IF_ERROR(Health());
  ASSIGN_OR_RETURN(const auto begin, TimeOf(earlier));
  ASSIGN_OR_RETURN(const auto end, TimeOf(later));
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

absl::Status CpuDevice::Wait(Stream stream, const Event& event) {
  RETURN_IF_ERROR(Health());
  if (event == nullptr) {
    return Fail(
        absl::InternalError(absl::StrFormat("cpu device: Wait(%s, no event)", Name(stream))));
  }
  auto cpu_event = std::static_pointer_cast<CpuEvent>(event);
  if (stream == Stream::kCompute) {
    cpu_event->Wait();
    return Health();
  }
  QueueOf(stream).Wait(std::move(cpu_event));
  return absl::OkStatus();
}

absl::Status CpuDevice::Synchronize() {
  for (const Stream stream : kQueuedStreams) QueueOf(stream).Record()->Wait();
  return Health();
}

CopyQueue& CpuDevice::QueueOf(Stream stream) { return *queues_[static_cast<size_t>(stream)]; }

absl::Status CpuDevice::Health() {
  const std::lock_guard lock(mutex_);
  return status_;
}

absl::Status CpuDevice::Fail(const absl::Status& error) {
  const std::lock_guard lock(mutex_);
  status_.Update(error);
  return status_;
}

}  // namespace neap
