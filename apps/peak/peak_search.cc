#include "apps/peak/peak_search.h"

#include <algorithm>
#include <chrono>

#include "neap/core/base/status_macros.h"

namespace neap::apps {

absl::StatusOr<PeakSearch> FindLargest(int64_t most, const Fits& fits) {
  const auto start = std::chrono::steady_clock::now();
  PeakSearch search;
  int64_t too_large = most + 1;
  for (int64_t size = 1; size < too_large;) {
    ++search.probes;
    ASSIGN_OR_RETURN(const bool fit, fits(size));
    (fit ? search.largest : too_large) = size;
    const int64_t halfway = search.largest + (too_large - search.largest) / 2;
    size = too_large > most ? std::min(2 * search.largest, std::max(halfway, size + 1)) : halfway;
    if (size <= search.largest) break;
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  search.elapsed_ms = elapsed.count();
  return search;
}

}  // namespace neap::apps
