#include "neap/memory/transfer/tensor_cache.h"

#include <boost/intrusive/list.hpp>
#include <set>
#include <utility>
#include <vector>

namespace neap {
namespace {

// Alg. 2's list: front = most recently used.
class LruOrder final : public EvictionOrder {
 public:
  explicit LruOrder(size_t count) : nodes_(count) {}
  ~LruOrder() override { list_.clear(); }

  void Touch(size_t entry, int /*next_use*/) override {
    Remove(entry);
    list_.push_front(nodes_[entry]);
  }
  void Remove(size_t entry) override {
    if (nodes_[entry].hook.is_linked()) list_.erase(list_.iterator_to(nodes_[entry]));
  }
  void VisitInOrder(const std::function<bool(size_t)>& visit) const override {
    for (auto node = list_.rbegin(); node != list_.rend(); ++node) {
      if (!visit(static_cast<size_t>(&*node - nodes_.data()))) return;
    }
  }

 private:
  struct Node {
    boost::intrusive::list_member_hook<> hook;
  };
  using List = boost::intrusive::list<
      Node, boost::intrusive::member_hook<Node, boost::intrusive::list_member_hook<>, &Node::hook>,
      boost::intrusive::constant_time_size<false>>;

  std::vector<Node> nodes_;  // by entry; never resized
  List list_;
};

class BeladyOrder final : public EvictionOrder {
 public:
  explicit BeladyOrder(size_t count) : next_use_(count) {}

  void Touch(size_t entry, int next_use) override {
    Remove(entry);
    by_next_use_.emplace(next_use, entry);
    next_use_[entry] = next_use;
  }
  void Remove(size_t entry) override {
    if (!next_use_[entry].has_value()) return;
    by_next_use_.erase({*next_use_[entry], entry});
    next_use_[entry].reset();
  }
  void VisitInOrder(const std::function<bool(size_t)>& visit) const override {
    for (auto it = by_next_use_.rbegin(); it != by_next_use_.rend(); ++it) {
      if (!visit(it->second)) return;
    }
  }

 private:
  std::set<std::pair<int, size_t>> by_next_use_;
  std::vector<std::optional<int>> next_use_;  // by entry, of those that are there
};

}  // namespace

std::optional<size_t> EvictionOrder::Victim(const std::function<bool(size_t)>& is_locked) const {
  std::optional<size_t> victim;
  VisitInOrder([&](size_t entry) {
    if (!is_locked(entry)) victim = entry;
    return !victim.has_value();
  });
  return victim;
}

std::unique_ptr<EvictionOrder> MakeEvictionOrder(EvictionRule eviction, size_t count) {
  if (eviction == EvictionRule::kLru) return std::make_unique<LruOrder>(count);
  return std::make_unique<BeladyOrder>(count);
}

}  // namespace neap
