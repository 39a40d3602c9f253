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
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;  // 2 * kNever fits
constexpr int64_t kNotDivided = std::numeric_limits<int64_t>::max();

int64_t Picoseconds(double seconds) { return std::llround(seconds * kPicosecondsPerSecond); }

// An engine's run of one part.
struct Part {
  int64_t workspace_bytes = 0;
  int64_t picoseconds = 0;
  const TimedEngine* engine = nullptr;
};

// For each batch, in rising workspace and falling time. Entries beyond the limit are popped from
// the back.
using PartsByBatch = std::vector<std::vector<Part>>;

// The fastest way to run some number of images.
struct Best {
  int64_t picoseconds = kNever;
  int64_t parts = 0;
  int64_t workspace_bytes = 0;
  int64_t first_batch = 0;  // size of one part; the others are the best division of the rest

  auto Key() const { return std::tie(picoseconds, parts, workspace_bytes); }
};

// The dynamic program, for limits that decrease from call to call.
class DivisionTable {
 public:
  DivisionTable(absl::Span<const TimedEngine> engines, int64_t batch, int64_t granularity);
  std::optional<Configuration> Fastest(int64_t workspace_limit_bytes);

 private:
  size_t batch() const { return rest_.size() - 1; }
  bool IsMultiple(size_t images) const { return images % granularity_ == 0; }
  // Whether this number of images can remain after some parts.
  bool IsRest(size_t images) const { return IsMultiple(images) || IsMultiple(batch() - images); }
  Best Divide(size_t images) const;
  Best DivideWhole() const;
  Configuration Collect(const Best& whole) const;

  size_t granularity_;
  PartsByBatch first_;      // as the first part
  PartsByBatch later_;      // as a later part
  std::vector<Best> rest_;  // by the number of images after the first part
  // Rests that are fastest as one part. Only these sizes need to be tried as parts: any other size
  // is at least as fast divided.
  std::vector<size_t> undivided_;
};

// The total of `part` and the best division of the rest.
Best Join(const Part& part, size_t images, const Best& rest) {
  return {part.picoseconds + rest.picoseconds, 1 + rest.parts,
          std::max(part.workspace_bytes, rest.workspace_bytes), static_cast<int64_t>(images)};
}

// Sorts the parts, and keeps only those that are faster than all parts with less workspace.
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

void KeepWithin(int64_t limit_bytes, std::vector<Part>& parts) {
  while (!parts.empty() && parts.back().workspace_bytes > limit_bytes) parts.pop_back();
}

DivisionTable::DivisionTable(absl::Span<const TimedEngine> engines, int64_t batch,
                             int64_t granularity)
    : granularity_(static_cast<size_t>(granularity)),
      first_(static_cast<size_t>(batch) + 1),
      later_(first_.size()),
      rest_(first_.size(), {.workspace_bytes = kNotDivided}) {
  rest_[0] = {.picoseconds = 0};
  for (const TimedEngine& engine : engines) {
    if (engine.batch < 1 || engine.batch > batch) continue;
    const auto images = static_cast<size_t>(engine.batch);
    const Part alone = {engine.workspace_bytes, Picoseconds(engine.seconds), &engine};
    if (!engine.adds) first_[images].push_back(alone);
    if (!engine.addition.seconds.has_value()) continue;
    later_[images].push_back({alone.workspace_bytes + engine.addition.workspace_bytes,
                              alone.picoseconds + Picoseconds(*engine.addition.seconds), &engine});
  }
  for (std::vector<Part>& parts : first_) KeepDesirable(parts);
  for (std::vector<Part>& parts : later_) KeepDesirable(parts);
}

std::optional<Configuration> DivisionTable::Fastest(int64_t workspace_limit_bytes) {
  const int64_t limit_bytes = std::min(workspace_limit_bytes, kNotDivided - 1);
  for (std::vector<Part>& parts : first_) KeepWithin(limit_bytes, parts);
  undivided_.clear();
  for (size_t images = 1; images < batch(); ++images) {
    if (!IsRest(images)) continue;
    KeepWithin(limit_bytes, later_[images]);
    // The fastest division under a larger limit remains the fastest if it still fits.
    if (rest_[images].workspace_bytes > limit_bytes) rest_[images] = Divide(images);
    if (rest_[images].parts == 1) undivided_.push_back(images);
  }
  const Best whole = DivideWhole();
  if (whole.picoseconds >= kNever) return std::nullopt;
  return Collect(whole);
}

Best DivisionTable::Divide(size_t images) const {
  Best best;
  if (!later_[images].empty()) best = Join(later_[images].back(), images, rest_[0]);
  for (const size_t size : undivided_) {
    if (2 * size > images) break;  // the smallest part is no larger than half
    if (!IsMultiple(size) && IsMultiple(images)) continue;  // it ends another rest
    const Best& rest = rest_[images - size];
    if (rest_[size].picoseconds + rest.picoseconds > best.picoseconds) continue;
    const Best divided = Join(later_[size].back(), size, rest);
    if (divided.Key() < best.Key()) best = divided;
  }
  return best;
}

Best DivisionTable::DivideWhole() const {
  Best best;
  for (size_t size = batch(); size > 0; --size) {  // ties go to the largest first part
    if (first_[size].empty() || (size < batch() && !IsMultiple(size))) continue;
    const Best divided = Join(first_[size].back(), size, rest_[batch() - size]);
    if (divided.Key() < best.Key()) best = divided;
  }
  return best;
}

Configuration DivisionTable::Collect(const Best& whole) const {
  const TimedEngine& first = *first_[static_cast<size_t>(whole.first_batch)].back().engine;
  Configuration result = {.parts = {first.use()},
                          .workspace_bytes = whole.workspace_bytes,
                          .seconds = static_cast<double>(whole.picoseconds) / kPicosecondsPerSecond,
                          .source = first.source};
  for (size_t left = batch() - static_cast<size_t>(whole.first_batch); left > 0;) {
    const auto size = static_cast<size_t>(rest_[left].first_batch);
    const TimedEngine& next = *later_[size].back().engine;
    result.parts.push_back(next.use());
    result.source = std::min(result.source, next.source);
    left -= size;
  }
  const auto order = [this](const EngineUse& part) {
    return std::pair(!IsMultiple(static_cast<size_t>(part.batch)), -part.batch);
  };
  std::sort(result.parts.begin() + 1, result.parts.end(),
            [&](const EngineUse& a, const EngineUse& b) { return order(a) < order(b); });
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

std::vector<int64_t> MicroBatchSizes(DivisionPolicy policy, int64_t batch, int64_t granularity) {
  const int64_t left = batch % granularity;
  const auto is_part = [&](int64_t size) {
    switch (policy) {
      case DivisionPolicy::kUndivided:
        return false;
      case DivisionPolicy::kPowerOfTwo:
        return size == left || (IsPowerOfTwo(size) && size % granularity == 0);
      case DivisionPolicy::kAll:
        return size % granularity == 0 || size % granularity == left;
    }
    return false;
  };
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < batch; ++size) {
    if (is_part(size)) sizes.push_back(size);
  }
  sizes.push_back(batch);
  return sizes;
}

std::optional<Configuration> FastestDivision(absl::Span<const TimedEngine> engines, int64_t batch,
                                             int64_t granularity, int64_t workspace_limit_bytes) {
  return DivisionTable(engines, batch, granularity).Fastest(workspace_limit_bytes);
}

std::vector<Configuration> DesirableConfigurations(absl::Span<const TimedEngine> engines,
                                                   int64_t batch, int64_t granularity,
                                                   int64_t workspace_limit_bytes) {
  DivisionTable table(engines, batch, granularity);
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
