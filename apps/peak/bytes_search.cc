// FindLargestByBytes(): the secant method, with bounds on its steps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "apps/peak/peak_search.h"
#include "neap/core/base/clock.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

// While no size is known that does not fit, the next one is at most so many times as large, because
// larger depths take longer to plan.
constexpr int64_t kMaxGrowth = 4;
// The sizes between those that fit and those that do not are halved at least by so many probes.
constexpr int kProbesOfHalving = 3;

class BytesSearch {
 public:
  BytesSearch(const SizeRange& range, int64_t budget_bytes)
      : budget_bytes_(budget_bytes),
        most_(range.most),
        largest_(range.reached),
        too_large_(range.most + 1),
        bytes_per_size_(range.bytes_per_size) {}

  bool is_done() const { return too_large_ - largest_ <= 1; }
  int64_t largest() const { return largest_; }
  double bytes_per_size() const { return bytes_per_size_; }

  int64_t Clamp(int64_t size) const { return std::clamp(size, largest_ + 1, too_large_ - 1); }

  void Take(int64_t size, const SizeProbe& probe) {
    if (probe.fits != last_fits_) stride_ = 1;
    last_fits_ = probe.fits;
    (probe.fits ? largest_ : too_large_) = size;
    if (probe.bytes.has_value()) TakePoint({size, *probe.bytes});
    const int64_t between = too_large_ - largest_;
    ++since_halving_;
    if (2 * between > halving_from_) return;
    halving_from_ = between;
    since_halving_ = 0;
  }

  int64_t Next() {
    const bool has_end = too_large_ <= most_;
    if (has_end && (!has_last_ || since_halving_ >= kProbesOfHalving))
      return largest_ + (too_large_ - largest_) / 2;
    const int64_t guess = Guess();
    int64_t size = guess;
    if (last_fits_ ? guess <= largest_ : guess >= too_large_) {
      size = last_fits_ ? largest_ + stride_ : too_large_ - stride_;
      stride_ *= 2;
    } else {
      stride_ = 1;
    }
    if (!has_end) size = std::min(size, kMaxGrowth * std::max<int64_t>(largest_, 1));
    return Clamp(size);
  }

 private:
  struct Point {
    int64_t size = 0;
    int64_t bytes = 0;
  };

  void TakePoint(const Point& point) {
    if (has_last_) {
      const double slope = static_cast<double>(point.bytes - last_.bytes) /
                           static_cast<double>(point.size - last_.size);
      if (slope > 0) bytes_per_size_ = slope;
    }
    last_ = point;
    has_last_ = true;
  }

  // The size that takes the budget, on a line through the last two points; on one through the
  // origin if there is only one.
  int64_t Guess() const {
    if (!has_last_) return 2 * largest_;
    const double slope = bytes_per_size_ > 0
                             ? bytes_per_size_
                             : static_cast<double>(last_.bytes) / static_cast<double>(last_.size);
    const double more = static_cast<double>(budget_bytes_ - last_.bytes) / std::max(slope, 1.0);
    const double size = static_cast<double>(last_.size) + std::floor(more);
    return static_cast<int64_t>(std::clamp(size, 0.0, static_cast<double>(most_)));
  }

  const int64_t budget_bytes_;
  const int64_t most_;
  int64_t largest_;
  int64_t too_large_;
  double bytes_per_size_;
  bool has_last_ = false;
  Point last_;  // the last probe that told its bytes
  bool last_fits_ = true;
  int64_t stride_ = 1;  // if the line is wrong: doubles while probes have one answer
  int64_t halving_from_ = std::numeric_limits<int64_t>::max();
  int since_halving_ = 0;
};

}  // namespace

absl::StatusOr<PeakSearch> FindLargestByBytes(const SizeRange& range, int64_t budget_bytes,
                                              const TrySize& try_size, int64_t from) {
  const auto start = std::chrono::steady_clock::now();
  BytesSearch search(range, budget_bytes);
  PeakSearch found;
  int64_t size = from;
  while (!search.is_done()) {
    size = search.Clamp(size);
    ++found.probes;
    ASSIGN_OR_RETURN(const SizeProbe probe, try_size(size));
    search.Take(size, probe);
    if (!search.is_done()) size = search.Next();
  }
  found.largest = search.largest();
  found.bytes_per_size = search.bytes_per_size();
  found.elapsed_ms = MillisecondsSince(start);
  return found;
}

}  // namespace neap::apps
