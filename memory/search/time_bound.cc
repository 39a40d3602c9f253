#include "neap/memory/search/time_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "neap/core/program/lifetimes.h"
#include "neap/recompute/segments.h"

namespace neap {
namespace {

// The most steps for which a bound is computed: those with the most bytes.
constexpr size_t kMaxSteps = 64;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Tensors that may leave the arena while a step runs: those that one step computed, or one by
// itself.
struct Droppable {
  double bytes = 0;
  double seconds = kNever;  // to rebuild it
};

// The times before a step and from it on, and what has to leave.
struct Situation {
  double before = 0, own = 0, after = 0;  // seconds of runs; `after` begins with its own
  double excess = 0;                      // bytes
};

class TimeBound {
 public:
  TimeBound(const Program& program, const TimePrices& prices)
      : program_(program),
        prices_(prices),
        segments_(NothingDropped(program)),
        lives_(Lifetimes(program, ProgramOrder(program))) {}

  double LeastSeconds(int64_t capacity) const {
    const std::vector<double>& runs = prices_.run_seconds;
    std::vector<double> until(runs.size() + 1, 0);
    std::partial_sum(runs.begin(), runs.end(), until.begin() + 1);
    const double all = until.back();
    double least = all;
    for (const size_t step : StepsWithMost(capacity)) {
      std::vector<Droppable> droppable;
      const double bytes = BytesAt(step, droppable);
      const Situation at = {.before = until[step],
                            .own = runs[step],
                            .after = all - until[step],
                            .excess = bytes - static_cast<double>(capacity)};
      if (at.excess > 0) least = std::max(least, LeastAt(at, std::move(droppable)));
    }
    return least;
  }

 private:
  int64_t SizeOf(const Lifetime& life) const {
    const Tensor& tensor = program_.tensor(life.tensor);
    return IsPersistent(tensor.role) ? 0 : tensor.spec.size_bytes();
  }

  // The steps that have more bytes than the capacity if nothing is dropped, those with the most
  // first.
  std::vector<size_t> StepsWithMost(int64_t capacity) const {
    std::vector<int64_t> bytes(program_.steps.size() + 1, 0);
    for (const Lifetime& life : lives_) {
      bytes[static_cast<size_t>(life.begin)] += SizeOf(life);
      bytes[static_cast<size_t>(life.end)] -= SizeOf(life);
    }
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    std::vector<size_t> steps;
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      if (bytes[i] > capacity) steps.push_back(i);
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
    steps.resize(std::min(steps.size(), kMaxSteps));
    return steps;
  }

  // The bytes of the step's operands and of what is needed later, which is also listed.
  double BytesAt(size_t step, std::vector<Droppable>& droppable) const {
    const InPlace in_place = InPlaceAt(step);
    double bytes = 0;
    absl::flat_hash_map<StepId, size_t> by_producer;
    const int at = static_cast<int>(step);
    for (const Lifetime& life : lives_) {
      if (life.begin > at) break;
      if (life.end <= at || SizeOf(life) == 0) continue;
      const auto size = static_cast<double>(SizeOf(life));
      const bool is_operand = std::binary_search(life.uses.begin(), life.uses.end(), at);
      if (is_operand && !in_place.written.contains(life.tensor)) bytes += size;
      const bool may_leave = !is_operand || in_place.overwritten.contains(life.tensor);
      if (!may_leave || life.end == at + 1) continue;
      bytes += size;
      const std::optional<StepId> producer = RebuiltBy(life);
      if (!producer.has_value()) {
        droppable.push_back({.bytes = size});
        continue;
      }
      const auto [found, is_new] = by_producer.emplace(*producer, droppable.size());
      if (is_new)
        droppable.push_back({.bytes = 0, .seconds = prices_.rerun_seconds[producer->index()]});
      droppable[found->second].bytes += size;
    }
    return bytes;
  }

  // The results that may overwrite an operand take no bytes of their own. If there is one such
  // operand, and it is needed later, it is lost then, or the result takes bytes after all, so it
  // counts as an operand and again among what is dropped. If there are several, nothing is lost.
  struct InPlace {
    absl::flat_hash_set<TensorId> written, overwritten;
  };
  InPlace InPlaceAt(size_t step) const {
    InPlace in_place;
    absl::flat_hash_map<TensorId, std::vector<TensorId>> choices;
    for (const auto& [written, read] : program_.steps[step].in_place) {
      if (program_.tensor(written).spec.size_bytes() == program_.tensor(read).spec.size_bytes())
        choices[written].push_back(read);
    }
    for (const auto& [written, reads] : choices) {
      in_place.written.insert(written);
      if (reads.size() == 1) in_place.overwritten.insert(reads.front());
    }
    return in_place;
  }

  // The step whose rerun computes the tensor again, if one does.
  std::optional<StepId> RebuiltBy(const Lifetime& life) const {
    const std::optional<StepId> producer = segments_.producer[life.tensor.index()];
    if (!producer.has_value() || !segments_.of_step[producer->index()].has_value())
      return std::nullopt;
    const std::vector<Use> made = WritesOf(program_.steps[producer->index()], /*rerun=*/true);
    const bool is_made = std::any_of(made.begin(), made.end(),
                                     [&](const Use& use) { return use.tensor == life.tensor; });
    return is_made ? producer : std::nullopt;
  }

  // The least time over all divisions of the excess. With the cheapest rebuilt first, the time is
  // convex and piecewise linear in the bytes that are rebuilt: its minimum is at a kink.
  double LeastAt(const Situation& at, std::vector<Droppable> droppable) const {
    std::sort(droppable.begin(), droppable.end(), [](const Droppable& a, const Droppable& b) {
      return a.seconds * b.bytes < b.seconds * a.bytes;
    });
    const double pace = prices_.link_bytes_per_second > 0 ? 1 / prices_.link_bytes_per_second : 0;
    const auto time = [&](double rebuilt, double seconds) {
      const double left = std::max(at.excess - rebuilt, 0.0);
      return std::max(at.before, left * pace) + std::max(at.after + seconds, at.own + left * pace);
    };
    double least = time(0, 0);
    double rebuilt = 0, seconds = 0;  // of those before
    for (const Droppable& next : droppable) {
      if (rebuilt >= at.excess || !std::isfinite(next.seconds)) break;
      const double per_byte = next.seconds / next.bytes;
      const double most = std::min(next.bytes, at.excess - rebuilt);
      const auto consider = [&](double bytes) {
        bytes = std::clamp(bytes, 0.0, most);
        least = std::min(least, time(rebuilt + bytes, seconds + bytes * per_byte));
      };
      consider(most);
      if (pace == 0) break;
      consider(at.excess - at.before / pace - rebuilt);
      consider((at.own + (at.excess - rebuilt) * pace - at.after - seconds) / (per_byte + pace));
      rebuilt += next.bytes;
      seconds += next.seconds;
    }
    return least;
  }

  const Program& program_;
  const TimePrices& prices_;
  const Segments segments_;
  const std::vector<Lifetime> lives_;
};

}  // namespace

double LeastSeconds(const Program& program, const TimePrices& prices, int64_t capacity_bytes) {
  return TimeBound(program, prices).LeastSeconds(capacity_bytes);
}

}  // namespace neap
