// How long one run of a kernel takes, by a device's own clock.
//
// The kernel runs back to back after a warm-up, so often that a sample is long beside a launch and
// the clock's grain; the median of several samples is what a busy machine disturbs least.
//
//   KernelTimer timer(device, /*samples=*/7);
//   ASSIGN_OR_RETURN(KernelTime time, timer.Time(*kernel, args));
//
// *Ownership*: borrows the device. *Threads*: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"

namespace neap {

struct KernelTime {
  double median_seconds = 0;
  double spread = 0;  // interquartile range / median; of one sample none
  int64_t samples = 0;
};

class KernelTimer {
 public:
  // `samples`: at least; up to three times as many where they disagree.
  KernelTimer(Device& device, int64_t samples) : device_(&device), samples_(samples) {}

  // On the compute stream. Of two samples the shorter, and no more, where both take
  // `hopeless_seconds` or longer; one, where that and the warm-up do and are longer than any
  // library takes to start. Errors: the kernel's and the device's; CANCELLED where `go_on`, asked
  // before each sample, says no.
  absl::StatusOr<KernelTime> Time(Kernel& kernel, const KernelArgs& args,
                                  double hopeless_seconds = std::numeric_limits<double>::infinity(),
                                  const std::function<bool()>& go_on = nullptr);

 private:
  struct Timed {
    Kernel& kernel;
    const KernelArgs& args;
    const std::function<bool()>& go_on;
  };
  absl::StatusOr<std::vector<double>> Samples(const Timed& timed, double hopeless_seconds);
  // Of one run, by a sample of several.
  absl::StatusOr<double> Sample(const Timed& timed, int64_t runs);

  Device* device_;
  int64_t samples_;
};

}  // namespace neap
