// The memory pool of SuperNeurons (3.2.1): hands out offsets in an arena. It owns no memory.
//
// It keeps a list of all nodes, empty or allocated, in address order, and a hash table from id to
// node. A request takes the first empty node that is large enough and splits it. A freed node is
// merged with its empty neighbours at once, so two empty nodes never touch:
//
//   0        3        5        8            blocks of 1 KiB
//   +--------+--------+--------+------->    Allocate(7, 2 KiB): first fit takes [3, 5)
//   | id 1   | empty  | id 2   | empty      Free(7): [3, 5) is empty again
//   +--------+--------+--------+------->    Free(1), Free(2): one empty node
//
// Empty nodes are also in trees by address, one for each power of two of sizes: the first node of a
// tree of larger sizes is large enough, and only the tree of the request's own size is searched.
//
// With `kExactFitFirstFit` (moDNN 3.3) an empty node of exactly the right size is preferred. The
// last node, which reaches to the end of the arena, never counts as exact, so that the offsets do
// not depend on the size of the arena.
//
//   Heap heap(64 * kMiB);
//   ASSIGN_OR_RETURN(Region region, heap.Allocate(1, 100'000));
//   RETURN_IF_ERROR(heap.Free(1));
//
// *Threads*: not thread-safe. *Complexity*: O(log(empty nodes)); Allocate also visits empty nodes
// of less than twice the size.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "neap/memory/placement/allocator.h"

namespace neap {

enum class Fit : uint8_t { kFirstFit, kExactFitFirstFit };

class Heap final : public Allocator {
 public:
  // `capacity_bytes` is rounded down to whole blocks.
  explicit Heap(int64_t capacity_bytes, Fit fit = Fit::kFirstFit);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap() override;

  absl::StatusOr<Region> Allocate(AllocationId id, int64_t bytes) override;
  absl::Status Free(AllocationId id) override;
  // Allocates the region at `offset`, a multiple of kBlockBytes. RESOURCE_EXHAUSTED if a part of it
  // is taken.
  absl::StatusOr<Region> AllocateAt(AllocationId id, int64_t offset, int64_t bytes);
  int64_t LargestFreeBytes() const override;

  int64_t capacity_bytes() const { return capacity_blocks_ * kBlockBytes; }
  int64_t used_bytes() const { return used_blocks_ * kBlockBytes; }
  // The allocated regions, in address order.
  std::vector<Region> Allocated() const;

 private:
  struct Node {
    int64_t begin = 0;  // blocks
    int64_t count = 0;
    AllocationId id = 0;
    bool empty = true;
    boost::intrusive::list_member_hook<> address_hook;  // in by_address_
    boost::intrusive::set_member_hook<> empty_hook;     // in the tree of its size, if it is empty

    friend bool operator<(const Node& a, const Node& b) { return a.begin < b.begin; }
  };
  using AddressList =
      boost::intrusive::list<Node,
                             boost::intrusive::member_hook<
                                 Node, boost::intrusive::list_member_hook<>, &Node::address_hook>,
                             boost::intrusive::constant_time_size<false>>;
  using EmptyTree = boost::intrusive::set<
      Node,
      boost::intrusive::member_hook<Node, boost::intrusive::set_member_hook<>, &Node::empty_hook>,
      boost::intrusive::constant_time_size<false>>;

  Node* NewNode(int64_t begin, int64_t count);
  // Removes the node from by_address_.
  void Recycle(Node* node);
  absl::Status Check(AllocationId id, int64_t bytes) const;
  static int64_t BlocksFor(int64_t bytes);
  // The tree of an empty node, whose size must not change while it is in there.
  EmptyTree& TreeOf(int64_t count);
  void InsertEmpty(Node& node) { TreeOf(node.count).insert(node); }
  void EraseEmpty(Node& node) { TreeOf(node.count).erase(EmptyTree::s_iterator_to(node)); }
  Node* FindEmpty(int64_t count);
  // The empty node with this block, or null.
  Node* FindEmptyAt(int64_t block);
  // Allocates blocks [begin, begin + count) of the empty `node`. The rest of it stays empty.
  Region Take(AllocationId id, Node* node, int64_t begin, int64_t count);

  int64_t capacity_blocks_;
  int64_t used_blocks_ = 0;
  Fit fit_;
  std::deque<Node> storage_;
  std::vector<Node*> unused_;
  AddressList by_address_;
  std::array<EmptyTree, 64> empty_;  // [i]: of 2^i up to 2^(i+1) blocks
  absl::flat_hash_map<AllocationId, Node*> nodes_;
};

}  // namespace neap
