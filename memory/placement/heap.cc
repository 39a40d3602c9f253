#include "neap/memory/placement/heap.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {

Heap::Heap(int64_t capacity_bytes, Fit fit)
    : capacity_blocks_(std::max<int64_t>(capacity_bytes, 0) / kBlockBytes), fit_(fit) {
  if (capacity_blocks_ == 0) return;
  Node* all = NewNode(0, capacity_blocks_, true);
  by_address_.push_back(*all);
  empty_.push_back(*all);
}

Heap::~Heap() {
  empty_.clear();
  allocated_.clear();
  by_address_.clear();
}

Heap::Node* Heap::NewNode(int64_t begin, int64_t count, bool empty) {
  if (unused_.empty()) {
    storage_.emplace_back();
    unused_.push_back(&storage_.back());
  }
  Node* node = unused_.back();
  unused_.pop_back();
  node->begin = begin;
  node->count = count;
  node->empty = empty;
  return node;
}

void Heap::Recycle(Node* node) {
  by_address_.erase(by_address_.iterator_to(*node));
  unused_.push_back(node);
}
void Heap::RecycleEmpty(Node* node) {
  empty_.erase(empty_.iterator_to(*node));
  Recycle(node);
}

Heap::Node* Heap::FindEmpty(int64_t count) {
  Node* first = nullptr;
  for (Node& node : empty_) {
    if (node.count < count) continue;
    const bool reaches_end = node.begin + node.count == capacity_blocks_;
    if (fit_ == Fit::kFirstFit || (node.count == count && !reaches_end)) return &node;
    if (first == nullptr) first = &node;
  }
  return first;
}

// Looks for a neighbour of the same state in both directions at once. In training the freed bytes
// lie near the top: the next empty node above is close, the next one below can be very far.
void Heap::InsertByAddress(StateList& list, Node& node) {
  auto before = by_address_.iterator_to(node);
  auto after = std::next(before);
  while (before != by_address_.begin() && after != by_address_.end()) {
    --before;
    if (before->empty == node.empty) {
      list.insert(std::next(list.iterator_to(*before)), node);
      return;
    }
    if (after->empty == node.empty) {
      list.insert(list.iterator_to(*after), node);
      return;
    }
    ++after;
  }
  // One of the directions has no node of this state.
  if (before == by_address_.begin()) {
    list.push_front(node);
  } else {
    list.push_back(node);
  }
}

absl::Status Heap::Check(AllocationId id, int64_t bytes) const {
  if (bytes <= 0) return absl::InvalidArgumentError(absl::StrCat("request for ", bytes, " bytes"));
  if (nodes_.contains(id))
    return absl::InvalidArgumentError(absl::StrCat("id ", id, " is allocated"));
  return absl::OkStatus();
}

// Rounds up without overflow for any number of bytes.
int64_t Heap::BlocksFor(int64_t bytes) { return (bytes - 1) / kBlockBytes + 1; }

absl::StatusOr<Region> Heap::Allocate(AllocationId id, int64_t bytes) {
  RETURN_IF_ERROR(Check(id, bytes));
  Node* node = FindEmpty(BlocksFor(bytes));
  if (node == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no hole of ", bytes,
                                                     " bytes; the largest is ", LargestFreeBytes(),
                                                     ", in use ", used_bytes()));
  }
  return Take(id, node, node->begin, BlocksFor(bytes));
}

absl::StatusOr<Region> Heap::AllocateAt(AllocationId id, int64_t offset, int64_t bytes) {
  RETURN_IF_ERROR(Check(id, bytes));
  if (offset < 0 || offset % kBlockBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("offset ", offset, " is at no block"));
  }
  const int64_t begin = offset / kBlockBytes;
  const int64_t count = BlocksFor(bytes);
  for (Node& node : empty_) {
    if (node.begin > begin) break;
    if (begin - node.begin <= node.count - count) return Take(id, &node, begin, count);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("not all of the ", bytes, " bytes at ", offset, " are empty"));
}

Region Heap::Take(AllocationId id, Node* node, int64_t begin, int64_t count) {
  if (begin > node->begin) {
    Node* rest = NewNode(node->begin, begin - node->begin, true);
    by_address_.insert(by_address_.iterator_to(*node), *rest);
    empty_.insert(empty_.iterator_to(*node), *rest);
    node->count -= rest->count;
    node->begin = begin;
  }
  if (node->count > count) {
    Node* rest = NewNode(begin + count, node->count - count, true);
    by_address_.insert(std::next(by_address_.iterator_to(*node)), *rest);
    empty_.insert(std::next(empty_.iterator_to(*node)), *rest);
    node->count = count;
  }
  empty_.erase(empty_.iterator_to(*node));
  node->empty = false;
  node->id = id;
  InsertByAddress(allocated_, *node);
  nodes_.emplace(id, node);
  used_blocks_ += count;
  return Region{begin * kBlockBytes, count * kBlockBytes};
}

absl::Status Heap::Free(AllocationId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end())
    return absl::NotFoundError(absl::StrCat("id ", id, " is not allocated"));
  Node* node = found->second;
  nodes_.erase(found);
  used_blocks_ -= node->count;
  allocated_.erase(allocated_.iterator_to(*node));
  node->empty = true;

  const auto at = by_address_.iterator_to(*node);
  const auto after = std::next(at);
  const bool joins_after = after != by_address_.end() && after->empty;
  if (at != by_address_.begin() && std::prev(at)->empty) {
    std::prev(at)->count += node->count + (joins_after ? after->count : 0);
    Recycle(node);
    if (joins_after) RecycleEmpty(&*after);
  } else if (joins_after) {
    after->begin = node->begin;
    after->count += node->count;
    Recycle(node);
  } else {
    InsertByAddress(empty_, *node);
  }
  return absl::OkStatus();
}

int64_t Heap::LargestFreeBytes() const {
  int64_t largest = 0;
  for (const Node& node : empty_) largest = std::max(largest, node.count);
  return largest * kBlockBytes;
}

std::vector<Region> Heap::Allocated() const {
  std::vector<Region> regions;
  for (const Node& node : allocated_)
    regions.push_back({node.begin * kBlockBytes, node.count * kBlockBytes});
  return regions;
}

}  // namespace neap
