// Measures how long one run of a kernel takes, with the device's own clock.
//
// After a warm-up the kernel runs back to back, often enough that a sample is long compared to a
// launch and to the clock's resolution. The result is the median of several samples, which other
// load on the machine disturbs least. Iterations are replayed as one recording where the device can
// record, so the runs of a sample are too: otherwise the host's launches, which take longer than a
// small kernel, would be measured instead of the kernel. Runs may have several sets of operands in
// turn, so that a cache does not hold all that the next run reads.
//
//   KernelTimer timer(device, /*samples=*/7);
//   ASSIGN_OR_RETURN(KernelTime time, timer.Time(*kernel, {args}));
//
// *Ownership*: borrows the device. *Threads*: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"

namespace neap {

struct KernelTime {
  double median_seconds = 0;
  double spread = 0;  // interquartile range / median; 0 for one sample
  int64_t samples = 0;
};

class KernelTimer {
 public:
  // Takes at least `samples`, and up to three times as many if they disagree.
  KernelTimer(Device& device, int64_t samples) : device_(&device), samples_(samples) {}

  // Runs on the compute stream, with at least one set of arguments. Stops after two samples,
  // keeping the shorter, if both reach `hopeless_seconds`; after one if the warm-up did too and
  // neither can be start-up cost, or if both took ten times that; after the warm-up if that took so
  // long that no start-up explains it. Errors: the kernel's and the device's; CANCELLED if `go_on`,
  // called before each sample, returns false, unless the warm-up is hopeless and no start-up
  // explains it.
  absl::StatusOr<KernelTime> Time(Kernel& kernel, const std::vector<KernelArgs>& in_turn,
                                  double hopeless_seconds = std::numeric_limits<double>::infinity(),
                                  const std::function<bool()>& go_on = nullptr);

 private:
  struct Timed {
    Kernel& kernel;
    const std::vector<KernelArgs>& in_turn;
    const std::function<bool()>& go_on;
  };
  absl::StatusOr<std::vector<double>> Samples(const Timed& timed, double hopeless_seconds);
  // Seconds per run, from one sample of `runs` runs: the recorded ones, if there is a recording.
  absl::StatusOr<double> Sample(const Timed& timed, int64_t runs,
                                const Recording* recording = nullptr);
  absl::Status Run(const Timed& timed, int64_t runs);
  // A recording of so many runs; null for a single one, and if they cannot be recorded.
  std::unique_ptr<Recording> Recorded(const Timed& timed, int64_t runs);

  Device* device_;
  int64_t samples_;
};

}  // namespace neap
