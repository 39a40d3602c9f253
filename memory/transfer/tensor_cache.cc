#include "neap/memory/transfer/tensor_cache.h"

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <utility>

namespace neap {
namespace {

// Algorithm 2's list. Front: most recently used.
class LruCache final : public TensorCache {
 public:
  explicit LruCache(size_t count) : nodes_(count) {}
  ~LruCache() override { list_.clear(); }

  void In(size_t entry, int /*next_use*/) override {
    Remove(entry);
    list_.push_front(nodes_[entry]);
  }
  void Remove(size_t entry) override {
    if (nodes_[entry].hook.is_linked()) list_.erase(list_.iterator_to(nodes_[entry]));
  }
  void VisitFromTail(absl::FunctionRef<bool(size_t)> visit) const override {
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

// Tail: used farthest in the future.
class BeladyCache final : public TensorCache {
 public:
  explicit BeladyCache(size_t count) : nodes_(count) {}
  ~BeladyCache() override { by_next_use_.clear(); }

  void In(size_t entry, int next_use) override {
    Remove(entry);
    nodes_[entry].next_use = next_use;
    by_next_use_.insert(nodes_[entry]);
  }
  void Remove(size_t entry) override {
    if (nodes_[entry].hook.is_linked()) by_next_use_.erase(by_next_use_.iterator_to(nodes_[entry]));
  }
  void VisitFromTail(absl::FunctionRef<bool(size_t)> visit) const override {
    for (auto node = by_next_use_.rbegin(); node != by_next_use_.rend(); ++node) {
      if (!visit(static_cast<size_t>(&*node - nodes_.data()))) return;
    }
  }

 private:
  struct Node {
    int next_use = 0;
    boost::intrusive::set_member_hook<> hook;
    // All nodes are in one vector, so addresses order them as entries do.
    friend bool operator<(const Node& a, const Node& b) {
      return std::pair(a.next_use, &a) < std::pair(b.next_use, &b);
    }
  };
  using Set = boost::intrusive::set<
      Node, boost::intrusive::member_hook<Node, boost::intrusive::set_member_hook<>, &Node::hook>,
      boost::intrusive::constant_time_size<false>>;

  std::vector<Node> nodes_;  // by entry; never resized
  Set by_next_use_;
};

}  // namespace

std::vector<size_t> TensorCache::Out(Usage excess, absl::FunctionRef<Usage(size_t)> size_of,
                                     absl::FunctionRef<bool(size_t)> is_locked) const {
  std::vector<size_t> victims;
  VisitFromTail([&](size_t entry) {
    if (excess.bytes <= 0 && excess.activation_bytes <= 0) return false;
    if (is_locked(entry)) return true;
    victims.push_back(entry);
    excess -= size_of(entry);
    return true;
  });
  return victims;
}

std::unique_ptr<TensorCache> MakeTensorCache(EvictionRule eviction, size_t count) {
  if (eviction == EvictionRule::kLru) return std::make_unique<LruCache>(count);
  return std::make_unique<BeladyCache>(count);
}

}  // namespace neap
