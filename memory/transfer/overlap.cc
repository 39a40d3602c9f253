#include "neap/memory/transfer/overlap.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "neap/recompute/segments.h"

namespace neap {
namespace {

// Extends stays into free bytes, and keeps the usage up to date.
class Shifter {
 public:
  Shifter(const Program& program, const Usage& limit, Residency& residency)
      : limit_(limit), residency_(residency) {
    usage_of_.reserve(program.tensors.size());
    for (const Tensor& tensor : program.tensors) usage_of_.push_back(UsageOf(tensor));
    size_t lives = 0;
    for (const Stay& stay : residency.stays) lives = std::max(lives, stay.life + 1);
    std::vector<std::optional<size_t>> last(lives);
    before_.resize(residency.stays.size());
    after_.resize(residency.stays.size());
    for (size_t i = 0; i < residency.stays.size(); ++i) {
      std::optional<size_t>& previous = last[residency.stays[i].life];
      before_[i] = previous;
      if (previous.has_value()) after_[*previous] = i;
      previous = i;
    }
  }

  // Begins the stay as early as its bytes are free, but not before `earliest`.
  void BeginEarlier(size_t i, int earliest) {
    Stay& stay = residency_.stays[i];
    if (before_[i].has_value()) earliest = std::max(earliest, residency_.stays[*before_[i]].end);
    earliest = std::max(earliest, stay.begin - kMaxOverlappedRuns);
    while (stay.begin > earliest && Take(stay.tensor, stay.begin - 1)) --stay.begin;
  }
  // Ends the stay as late as its bytes are free, but not after `latest`.
  void EndLater(size_t i, int latest) {
    Stay& stay = residency_.stays[i];
    if (after_[i].has_value()) latest = std::min(latest, residency_.stays[*after_[i]].begin);
    latest = std::min(latest, stay.end + kMaxOverlappedRuns);
    while (stay.end < latest && Take(stay.tensor, stay.end)) ++stay.end;
  }

  // Sorts the stays by `begin` again, and corrects the indices by which they refer to each other.
  void Finish() {
    std::vector<Stay>& stays = residency_.stays;
    std::vector<size_t> order(stays.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return stays[a].begin < stays[b].begin; });
    std::vector<size_t> place(stays.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<Stay> sorted;
    sorted.reserve(stays.size());
    for (size_t i : order) sorted.push_back(stays[i]);
    for (Stay& stay : sorted) {
      if (stay.replaces.has_value()) stay.replaces = place[*stay.replaces];
    }
    stays = std::move(sorted);
  }

 private:
  bool Take(TensorId tensor, int position) {
    const Usage& more = usage_of_[tensor.index()];
    Usage& usage = residency_.usage[static_cast<size_t>(position)];
    if (!Fits(usage, more, limit_)) return false;
    usage += more;
    return true;
  }

  const Usage& limit_;
  Residency& residency_;
  std::vector<Usage> usage_of_;                        // by TensorId
  std::vector<std::optional<size_t>> before_, after_;  // by stay: its neighbours in the same life
};

// The time at which each run begins, and at which the last one ends.
std::vector<double> BeginTimes(const std::vector<double>& run_seconds) {
  std::vector<double> begin = {0};
  for (double seconds : run_seconds) begin.push_back(begin.back() + seconds);
  return begin;
}

// The indices of the stays for which `wanted` is true.
template <typename Wanted>
std::vector<size_t> StaysWhere(const Residency& residency, const Wanted& wanted) {
  std::vector<size_t> found;
  for (size_t i = 0; i < residency.stays.size(); ++i) {
    if (wanted(residency.stays[i])) found.push_back(i);
  }
  return found;
}

double CopySeconds(const Program& program, const Stay& stay, const TransferTimes& times) {
  return static_cast<double>(program.tensor(stay.tensor).spec.size_bytes()) /
         times.bytes_per_second;
}

// Extends the stays that are offloaded until their copies are done. The d2h stream copies values in
// the order in which they are completed.
void ExtendUntilCopied(const Program& program, const TransferTimes& times,
                       const std::vector<double>& begin, Residency& residency, Shifter& shifter) {
  std::vector<size_t> offloaded =
      StaysWhere(residency, [](const Stay& stay) { return stay.offload_at.has_value(); });
  std::stable_sort(offloaded.begin(), offloaded.end(), [&](size_t a, size_t b) {
    return *residency.stays[a].offload_at < *residency.stays[b].offload_at;
  });
  double copied = 0;
  for (size_t i : offloaded) {
    const Stay& stay = residency.stays[i];
    copied = std::max(copied, begin[static_cast<size_t>(*stay.offload_at)]) +
             CopySeconds(program, stay, times);
    const auto done = std::lower_bound(begin.begin(), begin.end() - 1, copied);
    shifter.EndLater(i, static_cast<int>(done - begin.begin()));
  }
}

// From the last fetch to the first: each copy ends before its reader begins and before the next
// copy starts.
void FetchInTime(const Program& program, const TransferTimes& times,
                 const std::vector<double>& begin, Residency& residency, Shifter& shifter) {
  const std::vector<size_t> fetched =
      StaysWhere(residency, [](const Stay& stay) { return stay.fetched; });
  double next_start = begin.back();
  for (auto it = fetched.rbegin(); it != fetched.rend(); ++it) {
    const Stay& stay = residency.stays[*it];
    const double deadline = std::min(next_start, begin[static_cast<size_t>(stay.begin)]);
    next_start = deadline - CopySeconds(program, stay, times);
    const auto from = std::upper_bound(begin.begin(), begin.end(), next_start);
    shifter.BeginEarlier(*it, std::max(0, static_cast<int>(from - begin.begin()) - 1));
  }
}

}  // namespace

void FetchOneConvolutionAhead(const Program& program, const Liveness& liveness, const Usage& limit,
                              Residency& residency) {
  const ComputeSequence& runs = liveness.runs;
  // By layer: the next convolution in the order of forward, and the position of its own backward.
  std::vector<std::optional<size_t>> next(program.layers.size());
  std::vector<int> backward(program.layers.size(), static_cast<int>(runs.size()));
  std::optional<size_t> latest;
  for (size_t i = runs.size(); i-- > 0;) {
    const Step& step = program.steps[runs[i].step.index()];
    if (runs[i].recompute) continue;
    if (step.phase != Phase::kForward) {
      backward[step.layer.index()] = static_cast<int>(i);
      continue;
    }
    next[step.layer.index()] = latest;
    if (program.layers[step.layer.index()].traits.hides_transfers) latest = step.layer.index();
  }
  Shifter shifter(program, limit, residency);
  for (size_t i = 0; i < residency.stays.size(); ++i) {
    const Stay& stay = residency.stays[i];
    if (!stay.fetched || IsGiven(program.tensor(stay.tensor).role)) continue;
    const Run& maker = runs[static_cast<size_t>(liveness.lives[stay.life].begin)];
    const std::optional<size_t> convolution = next[program.steps[maker.step.index()].layer.index()];
    if (convolution.has_value()) shifter.BeginEarlier(i, backward[*convolution]);
  }
  shifter.Finish();
}

void OverlapTransfers(const Program& program, const TransferTimes& times, const Usage& limit,
                      Residency& residency) {
  if (times.bytes_per_second <= 0) return;
  const std::vector<double> begin = BeginTimes(times.run_seconds);
  Shifter shifter(program, limit, residency);
  ExtendUntilCopied(program, times, begin, residency, shifter);
  FetchInTime(program, times, begin, residency, shifter);
  shifter.Finish();
}

}  // namespace neap
