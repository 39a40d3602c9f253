#include "neap/memory/transfer/pool_choice.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "neap/memory/transfer/pools.h"

namespace neap {
namespace {

// If a layout does not fit, the level is lowered by at least this part of it.
constexpr int64_t kLevelStep = 64;

// Bytes in use at each of `count` times, as a tree: a node holds the bytes that were added to its
// whole span, and the largest sum within the span.
class UsedBytes {
 public:
  explicit UsedBytes(int count)
      : width_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(count, 1))))),
        nodes_(2 * static_cast<size_t>(width_)) {}

  void Add(int begin, int end, int64_t bytes) { Add(1, 0, width_, begin, end, bytes); }
  int64_t Most(int begin, int end) const { return Most(1, 0, width_, begin, end); }

 private:
  struct Node {
    int64_t added = 0;
    int64_t most = 0;
  };

  // `node` spans [from, to).
  void Add(size_t node, int from, int to, int begin, int end, int64_t bytes) {
    if (end <= from || to <= begin) return;
    Node& here = nodes_[node];
    if (begin <= from && to <= end) {
      here.added += bytes;
      here.most += bytes;
      return;
    }
    const int middle = from + (to - from) / 2;
    Add(2 * node, from, middle, begin, end, bytes);
    Add(2 * node + 1, middle, to, begin, end, bytes);
    here.most = here.added + std::max(nodes_[2 * node].most, nodes_[2 * node + 1].most);
  }
  int64_t Most(size_t node, int from, int to, int begin, int end) const {
    if (end <= from || to <= begin) return 0;
    const Node& here = nodes_[node];
    if (begin <= from && to <= end) return here.most;
    const int middle = from + (to - from) / 2;
    return here.added + std::max(Most(2 * node, from, middle, begin, end),
                                 Most(2 * node + 1, middle, to, begin, end));
  }

  int width_;
  std::vector<Node> nodes_;
};

std::vector<size_t> MostReadFirst(const std::vector<ExternalCopy>& copies) {
  std::vector<size_t> order(copies.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t i) { return int64_t{copies[i].end} - copies[i].begin; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return (1 + copies[a].reads) * length(b) > (1 + copies[b].reads) * length(a);
  });
  return order;
}

// The copies that go to the peer, in order of time. Copies are taken in `order` if they fit below
// the level.
std::vector<ExternalCopy> FillUp(const std::vector<ExternalCopy>& copies,
                                 const std::vector<size_t>& order, int64_t level_bytes) {
  const auto last = std::max_element(copies.begin(), copies.end(),
                                     [](const auto& a, const auto& b) { return a.end < b.end; });
  UsedBytes used(last->end);
  std::vector<bool> is_taken(copies.size());
  for (size_t i : order) {
    const ExternalCopy& copy = copies[i];
    if (copy.bytes > level_bytes - used.Most(copy.begin, copy.end)) continue;
    used.Add(copy.begin, copy.end, copy.bytes);
    is_taken[i] = true;
  }
  std::vector<ExternalCopy> taken;
  for (size_t i = 0; i < copies.size(); ++i) {
    if (is_taken[i]) taken.push_back(copies[i]);
  }
  return taken;
}

// Lowers the level in the proportion by which the layout was too large.
int64_t LowerLevel(int64_t level_bytes, int64_t laid_out_bytes, int64_t budget_bytes) {
  const double part = static_cast<double>(budget_bytes) / static_cast<double>(laid_out_bytes);
  return std::min(static_cast<int64_t>(static_cast<double>(level_bytes) * part),
                  level_bytes - level_bytes / kLevelStep - 1);
}

// The copies of the highest level whose layout fits the budget.
std::vector<ExternalCopy> ForPeer(const std::vector<ExternalCopy>& copies, int64_t budget_bytes) {
  if (copies.empty()) return {};
  const std::vector<size_t> order = MostReadFirst(copies);
  int64_t level_bytes = budget_bytes;
  while (level_bytes > 0) {
    std::vector<ExternalCopy> taken = FillUp(copies, order, level_bytes);
    const int64_t laid_out_bytes = LayOutCopies(taken).bytes;
    if (laid_out_bytes <= budget_bytes) return taken;
    level_bytes = LowerLevel(level_bytes, laid_out_bytes, budget_bytes);
  }
  return {};
}

}  // namespace

void ChoosePools(int64_t peer_budget_bytes, Plan& plan) {
  if (peer_budget_bytes <= 0) return;
  for (const ExternalCopy& copy : ForPeer(FindCopies(plan), peer_budget_bytes)) {
    auto& offload = std::get<OffloadAction>(plan.actions[static_cast<size_t>(copy.action)]);
    offload.pool = Pool::kPeer;
  }
}

}  // namespace neap
