#include "neap/layers/conv/micro_batching.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 3> kPolicyNames = {"undivided", "power-of-two", "all"};

constexpr double kPicosecondsPerSecond = 1e12;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;  // two of them can be added
constexpr int64_t kNotDivided = std::numeric_limits<int64_t>::max();

int64_t Picoseconds(double seconds) { return std::llround(seconds * kPicosecondsPerSecond); }

// An engine on one part. The scratch and the addition that a division needs are counted in: in the
// workspace of all parts but the whole batch, in the time of all parts. One addition too many, that
// is, and equally many for all divisions with equally many parts.
struct Part {
  int64_t workspace_bytes = 0;
  int64_t picoseconds = 0;
  const TimedEngine* engine = nullptr;
};

// The fastest way to run some number of images.
struct Best {
  int64_t picoseconds = kNever;
  int64_t parts = 0;
  int64_t workspace_bytes = 0;
  int64_t first_batch = 0;  // one part has so many, the others are the best of what remains

  auto Key() const { return std::tie(picoseconds, parts, workspace_bytes); }
};

// The dynamic program, for limits that fall from call to call.
class DivisionTable {
 public:
  DivisionTable(absl::Span<const TimedEngine> engines, int64_t batch,
                const Accumulation& accumulation);
  std::optional<Configuration> Fastest(int64_t workspace_limit_bytes);

 private:
  Best Divide(size_t batch) const;
  Configuration Collect() const;

  int64_t addition_picoseconds_;
  // By batch: rising workspace, falling time; what is beyond the limit is dropped from the back.
  std::vector<std::vector<Part>> engines_;
  std::vector<Best> best_;  // by batch
  // Batches that are fastest in one part, so far. No other need be a part: its division will do.
  std::vector<size_t> undivided_;
};

// Sorts, and leaves only the parts that are faster than all with less workspace.
void KeepDesirable(std::vector<Part>& parts) {
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::tie(a.workspace_bytes, a.picoseconds, a.engine->engine) <
           std::tie(b.workspace_bytes, b.picoseconds, b.engine->engine);
  });
  size_t kept = 0;
  for (const Part& part : parts) {
    if (kept == 0 || part.picoseconds < parts[kept - 1].picoseconds) parts[kept++] = part;
  }
  parts.resize(kept);
}

DivisionTable::DivisionTable(absl::Span<const TimedEngine> engines, int64_t batch,
                             const Accumulation& accumulation)
    : addition_picoseconds_(Picoseconds(accumulation.seconds)),
      engines_(static_cast<size_t>(batch) + 1),
      best_(engines_.size(), {.workspace_bytes = kNotDivided}) {
  best_[0] = {.picoseconds = 0};
  for (const TimedEngine& engine : engines) {
    if (engine.batch < 1 || engine.batch > batch) continue;
    const int64_t scratch_bytes = engine.batch < batch ? accumulation.scratch_bytes : 0;
    engines_[static_cast<size_t>(engine.batch)].push_back(
        {.workspace_bytes = engine.workspace_bytes + scratch_bytes,
         .picoseconds = Picoseconds(engine.seconds) + addition_picoseconds_,
         .engine = &engine});
  }
  for (std::vector<Part>& parts : engines_) KeepDesirable(parts);
}

std::optional<Configuration> DivisionTable::Fastest(int64_t workspace_limit_bytes) {
  const int64_t limit_bytes = std::min(workspace_limit_bytes, kNotDivided - 1);
  undivided_.clear();
  for (size_t batch = 1; batch < best_.size(); ++batch) {
    std::vector<Part>& parts = engines_[batch];
    while (!parts.empty() && parts.back().workspace_bytes > limit_bytes) parts.pop_back();
    // What was fastest under a larger limit and still fits is fastest now.
    if (best_[batch].workspace_bytes > limit_bytes) best_[batch] = Divide(batch);
    if (best_[batch].parts == 1) undivided_.push_back(batch);
  }
  if (best_.back().picoseconds >= kNever) return std::nullopt;
  return Collect();
}

Best DivisionTable::Divide(size_t batch) const {
  Best best;
  if (!engines_[batch].empty()) {
    const Part& part = engines_[batch].back();
    best = {part.picoseconds, 1, part.workspace_bytes, static_cast<int64_t>(batch)};
  }
  for (const size_t size : undivided_) {
    if (2 * size > batch) break;  // the smallest part is no larger than half
    const Best& part = best_[size];
    const Best& rest = best_[batch - size];
    const int64_t picoseconds = part.picoseconds + rest.picoseconds;
    if (picoseconds > best.picoseconds) continue;
    const Best divided = {picoseconds, 1 + rest.parts,
                          std::max(part.workspace_bytes, rest.workspace_bytes),
                          static_cast<int64_t>(size)};
    if (divided.Key() < best.Key()) best = divided;
  }
  return best;
}

Configuration DivisionTable::Collect() const {
  const Best& whole = best_.back();
  const int64_t picoseconds = whole.picoseconds - addition_picoseconds_;
  Configuration result = {
      .workspace_bytes = whole.workspace_bytes,
      .seconds = static_cast<double>(picoseconds) / kPicosecondsPerSecond,
  };
  for (size_t left = best_.size() - 1; left > 0;) {
    const auto size = static_cast<size_t>(best_[left].first_batch);
    result.parts.push_back({engines_[size].back().engine->engine, best_[left].first_batch});
    left -= size;
  }
  std::sort(result.parts.begin(), result.parts.end(),
            [](const EngineUse& a, const EngineUse& b) { return a.batch > b.batch; });
  return result;
}

}  // namespace

std::string_view Name(DivisionPolicy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

absl::StatusOr<DivisionPolicy> ParseDivisionPolicy(std::string_view text) {
  const auto* const found = std::find(kPolicyNames.begin(), kPolicyNames.end(), text);
  if (found != kPolicyNames.end()) {
    return static_cast<DivisionPolicy>(found - kPolicyNames.begin());
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "unknown division '%s'; known: undivided power-of-two all", std::string(text)));
}

std::vector<int64_t> MicroBatchSizes(DivisionPolicy policy, int64_t batch) {
  std::vector<int64_t> sizes;
  switch (policy) {
    case DivisionPolicy::kUndivided:
      break;
    case DivisionPolicy::kPowerOfTwo:
      for (int64_t size = 1; size < batch; size *= 2) sizes.push_back(size);
      break;
    case DivisionPolicy::kAll:
      for (int64_t size = 1; size < batch; ++size) sizes.push_back(size);
      break;
  }
  sizes.push_back(batch);
  return sizes;
}

std::optional<Configuration> FastestDivision(absl::Span<const TimedEngine> engines, int64_t batch,
                                             int64_t workspace_limit_bytes,
                                             const Accumulation& accumulation) {
  return DivisionTable(engines, batch, accumulation).Fastest(workspace_limit_bytes);
}

std::vector<Configuration> DesirableConfigurations(absl::Span<const TimedEngine> engines,
                                                   int64_t batch, int64_t workspace_limit_bytes,
                                                   const Accumulation& accumulation) {
  DivisionTable table(engines, batch, accumulation);
  std::vector<Configuration> front;
  std::optional<Configuration> next = table.Fastest(workspace_limit_bytes);
  for (; next.has_value(); next = table.Fastest(front.back().workspace_bytes - 1)) {
    if (!front.empty() && front.back().seconds == next->seconds) front.pop_back();
    front.push_back(*std::move(next));
  }
  std::reverse(front.begin(), front.end());
  return front;
}

const Configuration* FastestThatFits(absl::Span<const Configuration> front,
                                     int64_t workspace_bytes) {
  const auto beyond = std::upper_bound(front.begin(), front.end(), workspace_bytes,
                                       [](int64_t bytes, const Configuration& configuration) {
                                         return bytes < configuration.workspace_bytes;
                                       });
  return beyond == front.begin() ? nullptr : &*std::prev(beyond);
}

}  // namespace neap
