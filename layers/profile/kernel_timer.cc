#include "neap/layers/profile/kernel_timer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr double kSampleSeconds = 400e-6;  // wanted length of a sample: clocks are coarse
constexpr int64_t kMaxRuns = 100;          // in one sample
constexpr double kMaxSamples = 4;          // times as long at most, for all sets of arguments
constexpr double kMaxWarmUpSeconds = 5;    // libraries load their code in less
constexpr double kFarBeyond = 10;          // times what is hopeless: no disturbance does that twice
constexpr double kSteady = 0.02;           // spread at which no more samples are taken
constexpr int64_t kPatience = 3;           // limit on the samples, as a multiple of those wanted

// A quantile of sorted values, by linear interpolation.
double Quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

// The number of runs in a sample, for runs of `seconds`, with one for each set of arguments unless
// that takes much longer: a long run does not find its operands in the cache because of the last.
int64_t RunsOf(double seconds, const std::vector<KernelArgs>& in_turn) {
  const auto runs = static_cast<int64_t>(
      std::clamp(kSampleSeconds / std::max(seconds, 1e-9), 1.0, double{kMaxRuns}));
  const auto most =
      static_cast<int64_t>(kMaxSamples * kSampleSeconds / std::max(seconds, 1e-9)) + 1;
  return std::max(runs, std::min<int64_t>(most, std::ssize(in_turn)));
}

KernelTime TimeOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const double median = Quantile(samples, 0.5);
  return {.median_seconds = median,
          .spread = (Quantile(samples, 0.75) - Quantile(samples, 0.25)) / median,
          .samples = static_cast<int64_t>(samples.size())};
}

}  // namespace

absl::StatusOr<KernelTime> KernelTimer::Time(Kernel& kernel, const std::vector<KernelArgs>& in_turn,
                                             double hopeless_seconds,
                                             const std::function<bool()>& go_on) {
  ASSIGN_OR_RETURN(std::vector<double> samples,
                   Samples({kernel, in_turn, go_on}, hopeless_seconds));
  return TimeOf(std::move(samples));
}

absl::StatusOr<std::vector<double>> KernelTimer::Samples(const Timed& timed,
                                                         double hopeless_seconds) {
  // Other load on the machine may make a sample longer, never shorter.
  const double far_beyond_seconds = kFarBeyond * hopeless_seconds;
  ASSIGN_OR_RETURN(const double warm_up, Sample(timed, 1));
  if (warm_up >= std::max(far_beyond_seconds, 2 * kMaxWarmUpSeconds))
    return std::vector<double>{warm_up};
  const double too_long_seconds = std::max(hopeless_seconds, kMaxWarmUpSeconds);
  const absl::StatusOr<double> second_run = Sample(timed, 1);
  if (absl::IsCancelled(second_run.status()) && warm_up >= too_long_seconds)
    return std::vector<double>{warm_up};
  ASSIGN_OR_RETURN(const double first, second_run);
  const double shorter_run = std::min(warm_up, first);
  if (shorter_run >= far_beyond_seconds || shorter_run >= too_long_seconds)
    return std::vector<double>{shorter_run};
  int64_t runs = std::max<int64_t>(2, RunsOf(first, timed.in_turn));
  std::unique_ptr<Recording> recording = Recorded(timed, runs);
  ASSIGN_OR_RETURN(const double second, Sample(timed, runs, recording.get()));
  const auto [shorter, longer] = std::minmax(first, second);
  if (shorter >= hopeless_seconds) return std::vector<double>{shorter};
  std::vector<double> samples = {shorter, longer};
  if (RunsOf(shorter, timed.in_turn) != runs) {
    runs = RunsOf(shorter, timed.in_turn);
    recording = Recorded(timed, runs);
  }
  const auto wanted = static_cast<size_t>(samples_);
  samples.resize(runs > 1 ? 0 : std::min(samples.size(), wanted));  // drops too short samples
  while (samples.size() < wanted ||
         (samples.size() < wanted * kPatience && TimeOf(samples).spread > kSteady)) {
    ASSIGN_OR_RETURN(const double sample, Sample(timed, runs, recording.get()));
    samples.push_back(sample);
  }
  return samples;
}

absl::Status KernelTimer::Run(const Timed& timed, int64_t runs) {
  for (int64_t i = 0; i < runs; ++i) {
    const auto turn = static_cast<size_t>(i) % timed.in_turn.size();
    RETURN_IF_ERROR(timed.kernel.Run(timed.in_turn[turn]));
  }
  return absl::OkStatus();
}

std::unique_ptr<Recording> KernelTimer::Recorded(const Timed& timed, int64_t runs) {
  if (runs == 1) return nullptr;
  absl::StatusOr<std::unique_ptr<Recording>> recording =
      device_->Capture([&] { return Run(timed, runs); });
  return recording.ok() ? *std::move(recording) : nullptr;
}

absl::StatusOr<double> KernelTimer::Sample(const Timed& timed, int64_t runs,
                                           const Recording* recording) {
  if (timed.go_on != nullptr && !timed.go_on())
    return absl::CancelledError("stopped between two samples");
  ASSIGN_OR_RETURN(const Event begin, device_->RecordTime(Stream::kCompute));
  RETURN_IF_ERROR(recording != nullptr ? device_->Replay(*recording) : Run(timed, runs));
  ASSIGN_OR_RETURN(const Event end, device_->RecordTime(Stream::kCompute));
  RETURN_IF_ERROR(device_->Await(end));
  ASSIGN_OR_RETURN(const double elapsed_us, device_->ElapsedUs(begin, end));
  return std::max(elapsed_us, 1e-3) * 1e-6 / static_cast<double>(runs);
}

}  // namespace neap
