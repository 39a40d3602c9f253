#include "apps/peak/peak_search.h"

#include <algorithm>
#include <chrono>

#include "absl/container/flat_hash_map.h"
#include "neap/core/base/clock.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

constexpr int64_t kNeighbours = 4;
constexpr int64_t kNeighbourParts = 64;  // the first stride, and neighbours' distance, is a part

class KeptSearch {
 public:
  KeptSearch(int64_t most, const Fits& keeps) : most_(most), keeps_(keeps) {}

  absl::StatusOr<int64_t> Find(int64_t likely, int64_t from) {
    ASSIGN_OR_RETURN(const bool all_keep, Keeps(most_));
    if (all_keep) return most_;
    int64_t kept = 0;
    int64_t lost = most_;
    for (const int64_t size : {from, likely}) {
      if (size <= kept || size >= lost) continue;
      ASSIGN_OR_RETURN(const bool is_kept, Keeps(size));
      (is_kept ? kept : lost) = size;
    }
    for (bool is_larger_kept = true; is_larger_kept;) {
      RETURN_IF_ERROR(Bisect(kept, lost));
      ASSIGN_OR_RETURN(is_larger_kept, LookAbove(kept, lost));
    }
    return kept;
  }
  int64_t probes() const { return static_cast<int64_t>(known_.size()); }

 private:
  absl::StatusOr<bool> Keeps(int64_t size) {
    const auto known = known_.find(size);
    if (known != known_.end()) return known->second;
    ASSIGN_OR_RETURN(const bool is_kept, keeps_(size));
    known_[size] = is_kept;
    return is_kept;
  }

  // Searches until `lost` is the next size after `kept`. 0 counts as kept.
  absl::Status Bisect(int64_t& kept, int64_t& lost) {
    while (lost - kept > 1) {
      const int64_t middle = kept + (lost - kept) / 2;
      ASSIGN_OR_RETURN(const bool is_kept, Keeps(middle));
      (is_kept ? kept : lost) = middle;
    }
    return absl::OkStatus();
  }

  // Whether a neighbour above `kept` keeps its speed; the largest that does becomes `kept`.
  absl::StatusOr<bool> LookAbove(int64_t& kept, int64_t& lost) {
    const int64_t apart = std::max<int64_t>(1, kept / kNeighbourParts);
    int64_t above = most_;
    for (int64_t i = kNeighbours; i >= 1; --i) {
      const int64_t size = kept + i * apart;
      if (size >= most_) continue;
      ASSIGN_OR_RETURN(const bool is_kept, Keeps(size));
      if (is_kept) {
        kept = size;
        lost = above;
        return true;
      }
      above = size;
    }
    return false;
  }

  int64_t most_;
  const Fits& keeps_;
  absl::flat_hash_map<int64_t, bool> known_;
};

}  // namespace

PeakSearch After(const PeakSearch& before, PeakSearch found) {
  found.probes += before.probes;
  found.elapsed_ms += before.elapsed_ms;
  return found;
}

absl::StatusOr<PeakSearch> FindLargest(int64_t most, const Fits& fits, int64_t from) {
  const auto start = std::chrono::steady_clock::now();
  PeakSearch search;
  int64_t too_large = most + 1;
  int64_t stride = std::max<int64_t>(1, from / kNeighbourParts);
  for (int64_t size = from; search.largest < size && size < too_large;) {
    ++search.probes;
    ASSIGN_OR_RETURN(const bool fit, fits(size));
    (fit ? search.largest : too_large) = size;
    if (too_large > most) {
      size = std::min(most, size + stride);
    } else if (search.largest == 0) {
      size = std::max<int64_t>(1, size - stride);
    } else {
      size = search.largest + (too_large - search.largest) / 2;
    }
    stride *= 2;
  }
  search.elapsed_ms = MillisecondsSince(start);
  return search;
}

absl::StatusOr<PeakSearch> FindLargestKept(int64_t likely, int64_t most, const Fits& keeps,
                                           int64_t from) {
  const auto start = std::chrono::steady_clock::now();
  KeptSearch search(most, keeps);
  ASSIGN_OR_RETURN(const int64_t largest, search.Find(likely, from));
  return PeakSearch{
      .largest = largest, .probes = search.probes(), .elapsed_ms = MillisecondsSince(start)};
}

}  // namespace neap::apps
