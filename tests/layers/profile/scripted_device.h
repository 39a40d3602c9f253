// A device whose engines, with their times, are scripted by a test.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  absl::Status Synchronize() override {
    return is_lost_ ? absl::InternalError("the device is lost") : ForwardingDevice::Synchronize();
  }

 private:
  class ScriptedKernel final : public Kernel {
   public:
    ScriptedKernel(ScriptedDevice& device, const Scripted& script)
        : device_(device), script_(script) {}
    absl::Status Run(const KernelArgs& /*args*/) override {
      const double us = script_.run_us[std::min(runs_++, script_.run_us.size() - 1)];
      device_.elapsed_us_ += us;
      device_.is_lost_ = us <= 0;
      return device_.is_lost_ ? absl::InternalError("an illegal address") : absl::OkStatus();
    }

   private:
    ScriptedDevice& device_;
    const Scripted& script_;
    size_t runs_ = 0;
  };

  std::vector<Scripted> scripted_;
  double elapsed_us_ = 0;
  bool is_begun_ = false, is_lost_ = false;
};

}  // namespace neap
