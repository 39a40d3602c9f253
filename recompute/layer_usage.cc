#include "neap/recompute/layer_usage.h"

#include "neap/memory/in_place.h"

namespace neap {
namespace {

bool IsCounted(Role role) {
  return role == Role::kActivation || role == Role::kSaved || role == Role::kGradient;
}

// Adds to [begin, end) of a curve that is summed up in the end.
void Raise(std::vector<int64_t>& change, int begin, int end, int64_t bytes) {
  change[static_cast<size_t>(begin)] += bytes;
  change[static_cast<size_t>(end)] -= bytes;
}

}  // namespace

std::vector<RunUsage> UsagePerRun(const Program& program, const ComputeSequence& runs,
                                  bool in_place) {
  const std::vector<Lifetime> lives = Lifetimes(program, runs);
  const Replacements replaces =
      in_place ? ProveInPlace(program, runs, lives) : Replacements(lives.size());
  std::vector<RunUsage> usage(runs.size());
  std::vector<int64_t> open(runs.size() + 1, 0);
  std::vector<int64_t> rebuilt(runs.size() + 1, 0);
  for (size_t i = 0; i < lives.size(); ++i) {
    const Lifetime& life = lives[i];
    const Tensor& tensor = program.tensor(life.tensor);
    if (!IsCounted(tensor.role)) continue;
    const int64_t bytes = tensor.spec.size_bytes();
    for (int use : life.uses) usage[static_cast<size_t>(use)].working_set += bytes;
    if (replaces[i].has_value()) usage[static_cast<size_t>(life.begin)].working_set -= bytes;
    const bool waits = tensor.role != Role::kActivation;
    if (!waits && !runs[static_cast<size_t>(life.begin)].recompute) continue;
    Raise(waits ? open : rebuilt, life.begin, life.end, bytes);
    for (int use : life.uses) Raise(waits ? open : rebuilt, use, use + 1, -bytes);
  }
  int64_t open_now = 0;
  int64_t rebuilt_now = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    usage[i].open = open_now += open[i];
    usage[i].rebuilt = rebuilt_now += rebuilt[i];
  }
  return usage;
}

}  // namespace neap
