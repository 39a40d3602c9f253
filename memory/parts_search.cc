#include "neap/memory/parts_search.h"

#include <algorithm>
#include <map>

#include "neap/core/base/status_macros.h"
#include "neap/core/program/sub_batches.h"

namespace neap {
namespace {

using Outcome = PartsAttempt::Outcome;

// Numbers of parts of larger batches, above the first ones, differ by about this factor.
constexpr double kNextCount = 1.2;
constexpr int64_t kMaxCountsInARow = 64;
// Halving ends after so many numbers in a row that are not faster.
constexpr int kMaxMissesBelow = 2;

class Search {
 public:
  Search(const std::vector<int64_t>& counts, const PartsSearchOptions& options,
         AttemptParts attempt)
      : counts_(counts), options_(options), attempt_(attempt), best_ms_(options.best_ms) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Double());
    RETURN_IF_ERROR(Halve());
    for (int i = 0; i < options_.max_refinements; ++i) {
      const std::optional<size_t> next = MostPromising();
      if (!next.has_value()) break;
      RETURN_IF_ERROR(Try(*next));
    }
    return absl::OkStatus();
  }

 private:
  // By index into `counts_`.
  struct Tried {
    Outcome outcome = Outcome::kRefused;
    double kernels_ms = 0;
    double additional_ms = 0;  // at least; of numbers that fit
  };
  using Places = std::map<size_t, Tried>;

  size_t PlaceOf(int64_t count) const {
    return static_cast<size_t>(std::lower_bound(counts_.begin(), counts_.end(), count) -
                               counts_.begin());
  }

  absl::Status Double() {
    int misses = 0;
    for (int64_t count = options_.start; count <= counts_.back(); count *= 2) {
      const size_t i = PlaceOf(count);
      if (tried_.contains(i)) continue;
      const double before_ms = best_ms_;
      RETURN_IF_ERROR(Try(i));
      const Tried& last = tried_.at(i);
      if (last.outcome == Outcome::kSlow || last.outcome == Outcome::kTooLong) break;
      if (last.outcome == Outcome::kRefused) continue;
      misses = best_ms_ < before_ms ? 0 : misses + 1;
      const bool is_short = last.additional_ms > kMinPartsGain * best_ms_;
      if (!is_short || misses >= options_.max_misses) break;
    }
    return absl::OkStatus();
  }

  // Ends with the whole batch, so that the best plan is at least as fast.
  absl::Status Halve() {
    int misses = 0;
    for (int64_t count = options_.start / 2; count > 1 && misses < kMaxMissesBelow; count /= 2) {
      const size_t i = PlaceOf(count);
      if (tried_.contains(i)) continue;
      const double before_ms = best_ms_;
      RETURN_IF_ERROR(Try(i));
      const Outcome last = tried_.at(i).outcome;
      if (last == Outcome::kSlow || last == Outcome::kRefused) break;
      misses = best_ms_ < before_ms ? 0 : misses + 1;
    }
    return tried_.contains(0) ? absl::OkStatus() : Try(0);
  }

  absl::Status Try(size_t i) {
    ASSIGN_OR_RETURN(const PartsAttempt found, attempt_(counts_[i]));
    if (found.ms.has_value()) best_ms_ = std::min(best_ms_, *found.ms);
    const double ms = found.ms.value_or(best_ms_);
    tried_[i] = {found.outcome, found.kernels_ms, std::max(0.0, ms - found.kernels_ms)};
    return absl::OkStatus();
  }

  // The number that is likely to be the fastest of those between two that were tried; absent if
  // none can be much faster than the best.
  std::optional<size_t> MostPromising() const {
    std::optional<size_t> best;
    double least_ms = std::numeric_limits<double>::infinity();
    for (auto low = tried_.begin(); low != tried_.end() && std::next(low) != tried_.end(); ++low) {
      const auto high = std::next(low);
      if (!MayBeBetween(low->second, high->second)) continue;
      for (size_t i = low->first + 1; i < high->first; ++i) {
        const auto [bound_ms, likely_ms] = TimeOf(i, *low, *high);
        if (bound_ms >= (1 - kMinPartsGain) * best_ms_ || likely_ms >= least_ms) continue;
        least_ms = likely_ms;
        best = i;
      }
    }
    return best;
  }

  // Numbers below one that is refused need even more bytes.
  static bool MayBeBetween(const Tried& low, const Tried& high) {
    return high.outcome == Outcome::kFits ||
           (high.outcome == Outcome::kSlow && low.outcome == Outcome::kFits);
  }

  struct Time {
    double bound_ms = 0, likely_ms = 0;
  };
  Time TimeOf(size_t i, const Places::value_type& low, const Places::value_type& high) const {
    const auto share = [](double from, double at, double to) { return (at - from) / (to - from); };
    const auto count = [&](size_t place) { return static_cast<double>(counts_[place]); };
    const Tried &a = low.second, &b = high.second;
    const double kernels_ms =
        a.kernels_ms +
        (b.kernels_ms - a.kernels_ms) * share(count(low.first), count(i), count(high.first));
    // If the lower one is refused, bytes are as short as they can be there.
    const double most_ms = a.outcome == Outcome::kFits ? std::max(a.additional_ms, b.additional_ms)
                                                       : b.additional_ms + best_ms_ / 2;
    const double least_ms = b.outcome == Outcome::kFits ? b.additional_ms : 0;
    const double to_low = 1 - share(static_cast<double>(low.first), static_cast<double>(i),
                                    static_cast<double>(high.first));
    return {kernels_ms + least_ms, kernels_ms + least_ms + (most_ms - least_ms) * to_low};
  }

  const std::vector<int64_t>& counts_;
  const PartsSearchOptions& options_;
  AttemptParts attempt_;
  double best_ms_;
  Places tried_;
};

}  // namespace

std::vector<int64_t> PartCounts(int64_t batch) {
  std::vector<int64_t> counts = {1};
  int64_t power = 2;
  while (counts.back() < batch) {
    // The next number with smaller parts, or for large batches one that is farther away.
    const int64_t images = DivideBatch(batch, counts.back()).images;
    int64_t next = DivideBatch(batch, (batch + images - 2) / (images - 1)).count;
    while (power <= counts.back()) power *= 2;
    if (batch > kMaxBatchOfAllCounts && next > kMaxCountsInARow) {
      const auto apart = static_cast<int64_t>(kNextCount * static_cast<double>(counts.back()));
      next = std::max(next, DivideBatch(batch, std::min({apart, power, batch})).count);
    }
    counts.push_back(next);
  }
  return counts;
}

absl::Status SearchParts(const std::vector<int64_t>& counts, const PartsSearchOptions& options,
                         AttemptParts attempt) {
  return Search(counts, options, attempt).Run();
}

}  // namespace neap
