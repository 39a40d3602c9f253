// A device whose engines, with their times, are scripted by a test.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/forwarding_device.h"

namespace neap {

class ScriptedDevice final : public ForwardingDevice, public Backend {
 public:
  struct Scripted {
    Engine engine;
    // The times of successive runs; the last repeats. <= 0 makes the device fail.
    std::vector<double> run_us;
  };
  ScriptedDevice(Device& device, std::vector<Scripted> engines)
      : ForwardingDevice(device), scripted_(std::move(engines)) {}

  bool adds = false;  // the engines can add to gradients
  bool records = false;
  double launch_us = 0;  // that a run takes longer unless it is replayed

  Backend& backend() override { return *this; }
  std::string Versions() const override { return "scripted"; }
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (AddsToGradients(signature) && !adds) return absl::UnimplementedError("none adds");
    std::vector<Engine> engines;
    for (const Scripted& scripted : scripted_) engines.push_back(scripted.engine);
    return engines;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& /*signature*/,
                                                     std::string_view engine) override {
    const auto found =
        std::find_if(scripted_.begin(), scripted_.end(),
                     [&](const Scripted& scripted) { return scripted.engine.id == engine; });
    return std::make_unique<ScriptedKernel>(*this, *found);
  }
  absl::StatusOr<double> ElapsedUs(const Event& /*earlier*/, const Event& /*later*/) override {
    return std::exchange(elapsed_us_, 0);
  }
  absl::StatusOr<Event> RecordTime(Stream stream) override {
    elapsed_us_ = is_begun_ ? elapsed_us_ : 0;
    is_begun_ = !is_begun_;
    return ForwardingDevice::RecordTime(stream);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> enqueue) override {
    if (!records) return absl::UnimplementedError("this device cannot record");
    captured_.emplace();
    const absl::Status enqueued = enqueue();
    auto recording = std::make_unique<ScriptedRecording>(*std::move(captured_));
    captured_.reset();
    if (!enqueued.ok()) return enqueued;
    return recording;
  }
  absl::Status Replay(const Recording& recording) override {
    for (ScriptedKernel* kernel : static_cast<const ScriptedRecording&>(recording).runs) {
      const absl::Status ran = kernel->Spend(0);
      if (!ran.ok()) return ran;
    }
    return absl::OkStatus();
  }
  absl::Status Synchronize() override {
    return is_lost_ ? absl::InternalError("the device is lost") : ForwardingDevice::Synchronize();
  }

 private:
  class ScriptedKernel final : public Kernel {
   public:
    ScriptedKernel(ScriptedDevice& device, const Scripted& script)
        : device_(device), script_(script) {}
    absl::Status Run(const KernelArgs& /*args*/) override {
      if (!device_.captured_.has_value()) return Spend(device_.launch_us);
      device_.captured_->push_back(this);
      return absl::OkStatus();
    }
    absl::Status Spend(double launch_us) {
      const double us = script_.run_us[std::min(runs_++, script_.run_us.size() - 1)];
      device_.elapsed_us_ += us + launch_us;
      device_.is_lost_ = us <= 0;
      return device_.is_lost_ ? absl::InternalError("an illegal address") : absl::OkStatus();
    }

   private:
    ScriptedDevice& device_;
    const Scripted& script_;
    size_t runs_ = 0;
  };
  struct ScriptedRecording final : Recording {
    explicit ScriptedRecording(std::vector<ScriptedKernel*> kernels) : runs(std::move(kernels)) {}
    std::vector<ScriptedKernel*> runs;
  };

  std::vector<Scripted> scripted_;
  double elapsed_us_ = 0;
  bool is_begun_ = false, is_lost_ = false;
  std::optional<std::vector<ScriptedKernel*>> captured_;  // during Capture()
};

}  // namespace neap
