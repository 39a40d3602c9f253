#include "apps/list/copy_speed.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

constexpr int64_t kBytes = 128 * kMiB;
constexpr int kCopies = 40;
constexpr int kRounds = 3;

struct Direction {
  Stream stream = Stream::kD2h;
  std::byte* destination = nullptr;
  const std::byte* source = nullptr;
};

absl::Status Copy(Device& device, const Direction& direction) {
  return device.Copy(direction.stream, direction.destination, direction.source, kBytes);
}

// The sum of all directions, in bytes per second.
absl::StatusOr<double> Measure(Device& device, const std::vector<Direction>& directions) {
  const auto copy = [&](int count) -> absl::Status {
    for (int i = 0; i < count; ++i) {
      for (const Direction& direction : directions) RETURN_IF_ERROR(Copy(device, direction));
    }
    return device.Synchronize();
  };
  RETURN_IF_ERROR(copy(2));
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(copy(kCopies));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return static_cast<double>(kBytes * kCopies) * static_cast<double>(directions.size()) /
         elapsed.count();
}

// The seconds of a copy on the compute stream, while copies run in `directions`.
absl::StatusOr<double> SecondsBeside(Device& device, const Direction& within,
                                     const std::vector<Direction>& directions) {
  for (int i = 0; i < kCopies; ++i) {
    for (const Direction& direction : directions) RETURN_IF_ERROR(Copy(device, direction));
  }
  RETURN_IF_ERROR(Copy(device, within));
  ASSIGN_OR_RETURN(const Event begin, device.RecordTime(Stream::kCompute));
  for (int i = 0; i < kCopies; ++i) RETURN_IF_ERROR(Copy(device, within));
  ASSIGN_OR_RETURN(const Event end, device.RecordTime(Stream::kCompute));
  RETURN_IF_ERROR(device.Synchronize());
  ASSIGN_OR_RETURN(const double elapsed_us, device.ElapsedUs(begin, end));
  return 1e-6 * elapsed_us / kCopies;
}

}  // namespace

absl::StatusOr<CopySpeed> MeasureCopySpeed(Device& device, MemoryKind there) {
  ASSIGN_OR_RETURN(const Buffer near, device.Allocate(MemoryKind::kDevice, 3 * kBytes));
  ASSIGN_OR_RETURN(const Buffer far, device.Allocate(there, 2 * kBytes));
  const Direction out = {Stream::kD2h, far.data(), near.data()};
  const Direction back = {Stream::kH2d, near.data() + kBytes, far.data() + kBytes};
  CopySpeed speed;
  ASSIGN_OR_RETURN(speed.out, Measure(device, {out}));
  ASSIGN_OR_RETURN(speed.back, Measure(device, {back}));
  ASSIGN_OR_RETURN(speed.both_ways, Measure(device, {out, back}));
  const Direction within = {Stream::kCompute, near.data() + 2 * kBytes, near.data()};
  // The shortest of some rounds each, because other load and low clocks only make them longer.
  const std::vector<std::vector<Direction>> cases = {{}, {out}, {back}, {out, back}};
  std::vector<double> seconds(cases.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      ASSIGN_OR_RETURN(const double beside, SecondsBeside(device, within, cases[i]));
      seconds[i] = std::min(seconds[i], beside);
    }
  }
  speed.slowdown = std::max(seconds[1], seconds[2]) / seconds[0] - 1;
  speed.slowdown_both_ways = seconds[3] / seconds[0] - 1;
  return speed;
}

}  // namespace neap::apps
