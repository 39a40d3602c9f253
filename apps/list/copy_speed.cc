#include "apps/list/copy_speed.h"

#include <chrono>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

constexpr int64_t kBytes = 128 * kMiB;
constexpr int kCopies = 40;

struct Direction {
  Stream stream = Stream::kD2h;
  std::byte* destination = nullptr;
  const std::byte* source = nullptr;
};

// The sum of all directions, in bytes per second.
absl::StatusOr<double> Measure(Device& device, const std::vector<Direction>& directions) {
  const auto copy = [&](int count) -> absl::Status {
    for (int i = 0; i < count; ++i) {
      for (const Direction& d : directions)
        RETURN_IF_ERROR(device.Copy(d.stream, d.destination, d.source, kBytes));
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

}  // namespace

absl::StatusOr<CopySpeed> MeasureCopySpeed(Device& device, MemoryKind there) {
  ASSIGN_OR_RETURN(const Buffer near, device.Allocate(MemoryKind::kDevice, 2 * kBytes));
  ASSIGN_OR_RETURN(const Buffer far, device.Allocate(there, 2 * kBytes));
  const Direction out = {Stream::kD2h, far.data(), near.data()};
  const Direction back = {Stream::kH2d, near.data() + kBytes, far.data() + kBytes};
  CopySpeed speed;
  ASSIGN_OR_RETURN(speed.out, Measure(device, {out}));
  ASSIGN_OR_RETURN(speed.back, Measure(device, {back}));
  ASSIGN_OR_RETURN(speed.both_ways, Measure(device, {out, back}));
  return speed;
}

}  // namespace neap::apps
