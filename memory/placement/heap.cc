#include "neap/memory/placement/heap.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {

Heap::Heap(int64_t capacity_bytes, Fit fit)
    : capacity_blocks_(std::max<int64_t>(capacity_bytes, 0) / kBlockBytes), fit_(fit) {
  if (capacity_blocks_ == 0) return;
  Node* all = NewNode(0, capacity_blocks_);
  by_address_.push_back(*all);
  InsertEmpty(*all);
}

Heap::~Heap() {
  for (EmptyTree& tree : empty_) tree.clear();
  by_address_.clear();
}

Heap::Node* Heap::NewNode(int64_t begin, int64_t count) {
  if (unused_.empty()) {
    storage_.emplace_back();
    unused_.push_back(&storage_.back());
  }
  Node* node = unused_.back();
  unused_.pop_back();
  node->begin = begin;
  node->count = count;
  node->empty = true;
  return node;
}

void Heap::Recycle(Node* node) {
  by_address_.erase(by_address_.iterator_to(*node));
  unused_.push_back(node);
}

Heap::EmptyTree& Heap::TreeOf(int64_t count) {
  return empty_[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(count))) - 1];
}

Heap::Node* Heap::FindEmpty(int64_t count) {
  EmptyTree& own = TreeOf(count);
  if (fit_ == Fit::kExactFitFirstFit) {
    for (Node& node : own) {
      const bool reaches_end = node.begin + node.count == capacity_blocks_;
      if (node.count == count && !reaches_end) return &node;
    }
  }
  Node* first = nullptr;
  for (EmptyTree* tree = &own + 1; tree != empty_.data() + empty_.size(); ++tree) {
    if (!tree->empty() && (first == nullptr || *tree->begin() < *first)) first = &*tree->begin();
  }
  for (Node& node : own) {
    if (first != nullptr && *first < node) break;
    if (node.count >= count) return &node;
  }
  return first;
}

Heap::Node* Heap::FindEmptyAt(int64_t block) {
  Node at;
  at.begin = block;
  for (EmptyTree& tree : empty_) {
    auto after = tree.upper_bound(at);
    if (after == tree.begin()) continue;
    Node& node = *std::prev(after);
    if (block < node.begin + node.count) return &node;
  }
  return nullptr;
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
  Node* node = FindEmptyAt(begin);
  if (node != nullptr && begin - node->begin <= node->count - count)
    return Take(id, node, begin, count);
  return absl::ResourceExhaustedError(
      absl::StrCat("not all of the ", bytes, " bytes at ", offset, " are empty"));
}

Region Heap::Take(AllocationId id, Node* node, int64_t begin, int64_t count) {
  EraseEmpty(*node);
  if (begin > node->begin) {
    Node* rest = NewNode(node->begin, begin - node->begin);
    by_address_.insert(by_address_.iterator_to(*node), *rest);
    InsertEmpty(*rest);
    node->count -= rest->count;
    node->begin = begin;
  }
  if (node->count > count) {
    Node* rest = NewNode(begin + count, node->count - count);
    by_address_.insert(std::next(by_address_.iterator_to(*node)), *rest);
    InsertEmpty(*rest);
    node->count = count;
  }
  node->empty = false;
  node->id = id;
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
  node->empty = true;

  const auto at = by_address_.iterator_to(*node);
  const auto after = std::next(at);
  if (after != by_address_.end() && after->empty) {
    EraseEmpty(*after);
    node->count += after->count;
    Recycle(&*after);
  }
  if (at != by_address_.begin() && std::prev(at)->empty) {
    Node& before = *std::prev(at);
    EraseEmpty(before);
    node->begin = before.begin;
    node->count += before.count;
    Recycle(&before);
  }
  InsertEmpty(*node);
  return absl::OkStatus();
}

int64_t Heap::LargestFreeBytes() const {
  const auto tree = std::find_if(empty_.rbegin(), empty_.rend(),
                                 [](const EmptyTree& sizes) { return !sizes.empty(); });
  if (tree == empty_.rend()) return 0;
  int64_t largest = 0;
  for (const Node& node : *tree) largest = std::max(largest, node.count);
  return largest * kBlockBytes;
}

std::vector<Region> Heap::Allocated() const {
  std::vector<Region> regions;
  for (const Node& node : by_address_) {
    if (!node.empty) regions.push_back({node.begin * kBlockBytes, node.count * kBlockBytes});
  }
  return regions;
}

}  // namespace neap
