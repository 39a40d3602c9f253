// A CPU that claims to be an H200, whose kernels do nothing and take times that a test makes up.
//
//   TimedDevice device(*cpu);
//   device.SecondsOf(signature, "medium");  // what measuring it gives
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/devices/device_description.h"
#include "tests/forwarding_device.h"
#include "tests/memory/engines/workspace_catalog.h"

namespace neap::testing {

// *Threads*: lists engines on any number, as planners do; the rest on one.
class TimedDevice final : public ForwardingDevice, public Backend {
 public:
  explicit TimedDevice(Device& device) : ForwardingDevice(device) {}

  double run_takes_seconds = 0;       // of the host's time, for each run
  std::set<std::string> failing;      // engines that are not built
  std::vector<std::string> measured;  // "operation, batch, engine" of every kernel that was made
  int allocations_left = 1000;        // of device memory, before there is none

  // A launch, and a time in proportion to the bytes that depends on the operation and the engine:
  // the engines are not in the library's order.
  double SecondsOf(const StepSignature& signature, std::string_view engine) const {
    double bytes = 0;
    for (const OperandSpec& operand : signature.operands)
      bytes += static_cast<double>(operand.tensor.size_bytes());
    const uint64_t hash = StableHash(engine, StableHash(SignatureText(signature)));
    return 2e-6 + bytes * 1e-12 * (1 + static_cast<double>(hash % 1000) / 100);
  }

  const DeviceDescription& description() const override { return description_; }
  Backend& backend() override { return *this; }
  std::string Versions() const override { return "timed"; }
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (AddsToGradients(signature)) return absl::UnimplementedError("none adds");
    WorkspaceCatalog catalog;
    return catalog.Engines(signature);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    measured.push_back(absl::StrCat(SignatureText(signature), ", ", BatchOf(signature), ", ",
                                    std::string(engine)));
    if (failing.contains(std::string(engine))) return absl::AbortedError("it cannot be built");
    return std::make_unique<TimedKernel>(*this, SecondsOf(signature, engine));
  }
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override {
    if (kind == MemoryKind::kDevice && allocations_left-- <= 0)
      return absl::ResourceExhaustedError("no memory left");
    return ForwardingDevice::Allocate(kind, size_bytes);
  }
  absl::StatusOr<Event> RecordTime(Stream stream) override {
    begin_us_ = end_us_;
    end_us_ = now_us_;
    return ForwardingDevice::RecordTime(stream);
  }
  // Of the last two events.
  absl::StatusOr<double> ElapsedUs(const Event& /*earlier*/, const Event& /*later*/) override {
    return end_us_ - begin_us_;
  }
  absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> /*enqueue*/) override {
    return absl::UnimplementedError("this device cannot record");
  }

 private:
  struct TimedKernel final : Kernel {
    TimedKernel(TimedDevice& owner, double run_seconds) : device(owner), seconds(run_seconds) {}
    absl::Status Run(const KernelArgs& /*args*/) override {
      device.now_us_ += seconds * 1e6;
      if (device.run_takes_seconds > 0)
        std::this_thread::sleep_for(std::chrono::duration<double>(device.run_takes_seconds));
      return absl::OkStatus();
    }
    TimedDevice& device;
    double seconds;
  };

  DeviceDescription description_ = DescribedDevice("h200").value();
  double now_us_ = 0, begin_us_ = 0, end_us_ = 0;
};

}  // namespace neap::testing
