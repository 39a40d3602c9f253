// The memory pool of SuperNeurons (3.2.1): hands out offsets in an arena. It owns no memory.
//
// It keeps two lists in address order, one of empty nodes and one of allocated nodes, and a hash
// table from id to node. A request takes the first empty node that is large enough and splits it. A
// freed node is merged with its empty neighbours at once, so two empty nodes never touch:
//
//   0        3        5        8            blocks of 1 KiB
//   +--------+--------+--------+------->    Allocate(7, 2 KiB): first fit takes [3, 5)
//   | id 1   | empty  | id 2   | empty      Free(7): [3, 5) is empty again
//   +--------+--------+--------+------->    Free(1), Free(2): one empty node
//
// With `kExactFitFirstFit` (moDNN 3.3) an empty node of exactly the right size is preferred. The
// last node, which reaches to the end of the arena, never counts as exact, so that the offsets do
// not depend on the size of the arena.
//
//   Heap heap(64 * kMiB);
//   ASSIGN_OR_RETURN(Region region, heap.Allocate(1, 100'000));
//   RETURN_IF_ERROR(heap.Free(1));
//
// *Threads*: not thread-safe. *Complexity*: Allocate O(empty nodes); Free O(1) plus the allocated
// nodes up to the nearest empty one.
#pragma once

#include <boost/intrusive/list.hpp>
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
  using Hook = boost::intrusive::list_member_hook<>;
  struct Node {
    int64_t begin = 0;  // blocks
    int64_t count = 0;
    AllocationId id = 0;
    bool empty = true;
    Hook state_hook;    // in empty_ or allocated_
    Hook address_hook;  // in by_address_
  };
  using StateList =
      boost::intrusive::list<Node, boost::intrusive::member_hook<Node, Hook, &Node::state_hook>,
                             boost::intrusive::constant_time_size<false>>;
  using AddressList =
      boost::intrusive::list<Node, boost::intrusive::member_hook<Node, Hook, &Node::address_hook>,
                             boost::intrusive::constant_time_size<false>>;

  Node* NewNode(int64_t begin, int64_t count, bool empty);
  // Recycle() takes a node that is in neither state list; RecycleEmpty() one that is in empty_.
  void Recycle(Node* node);
  void RecycleEmpty(Node* node);
  absl::Status Check(AllocationId id, int64_t bytes) const;
  static int64_t BlocksFor(int64_t bytes);
  Node* FindEmpty(int64_t count);
  // Allocates blocks [begin, begin + count) of the empty `node`. The rest of it stays empty.
  Region Take(AllocationId id, Node* node, int64_t begin, int64_t count);
  // Inserts `node`, which is in by_address_ already, into the list of its state in address order.
  void InsertByAddress(StateList& list, Node& node);

  int64_t capacity_blocks_;
  int64_t used_blocks_ = 0;
  Fit fit_;
  std::deque<Node> storage_;
  std::vector<Node*> unused_;
  StateList empty_;
  StateList allocated_;
  AddressList by_address_;
  absl::flat_hash_map<AllocationId, Node*> nodes_;
};

}  // namespace neap
