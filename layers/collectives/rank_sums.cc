#include "neap/layers/collectives/rank_sums.h"

#include <algorithm>

namespace neap {
namespace {

constexpr int64_t kValueBytes = sizeof(float);

}  // namespace

template <typename Visit>
Packing::Position Packing::Walk(Position begin, const Visit& visit) const {
  int64_t packed = 0;
  Position at = begin;
  while (packed < piece_values_ && at.tensor < tensors_.size()) {
    const ReduceBuffer& tensor = tensors_[at.tensor];
    const int64_t count = std::min(piece_values_ - packed, tensor.count - at.value);
    visit(tensor, at.value, count, packed);
    packed += count;
    at.value += count;
    if (at.value == tensor.count) at = {.tensor = at.tensor + 1};
  }
  return at;
}

int64_t Packing::Pack(float* piece) {
  int64_t packed = 0;
  begin_ = end_;
  end_ = Walk(begin_, [&](const ReduceBuffer& tensor, int64_t first, int64_t count, int64_t place) {
    for (int64_t i = 0; i < count; ++i) piece[place + i] = tensor.weight * tensor.data[first + i];
    packed = place + count;
  });
  return packed;
}

void Packing::Unpack(const float* piece) {
  Walk(begin_, [&](const ReduceBuffer& tensor, int64_t first, int64_t count, int64_t place) {
    std::copy_n(piece + place, count, tensor.data + first);
  });
}

ShardPieces::ShardPieces(absl::Span<const ShardedTensor> tensors, int64_t piece_bytes)
    : part_bytes_(piece_bytes / std::ssize(tensors.front().bytes) / kValueBytes * kValueBytes),
      left_(tensors.front().bytes.size()),
      bytes_(left_.size()) {
  for (const ShardedTensor& tensor : tensors) {
    std::byte* data = tensor.data;
    for (size_t owner = 0; owner < tensor.bytes.size(); ++owner) {
      const int64_t bytes = tensor.bytes[owner];
      if (bytes > 0) left_[owner].push_back({data, bytes, static_cast<int>(owner)});
      data += bytes;
    }
  }
  for (std::vector<Shard>& of_owner : left_) std::reverse(of_owner.begin(), of_owner.end());
}

bool ShardPieces::Next() {
  piece_.clear();
  bytes_.assign(bytes_.size(), 0);
  for (std::vector<Shard>& of_owner : left_) {
    for (int64_t room = part_bytes_; room > 0 && !of_owner.empty();) {
      Shard& next = of_owner.back();
      const int64_t bytes = std::min(room, next.bytes);
      piece_.push_back({next.data, bytes, next.owner});
      bytes_[static_cast<size_t>(next.owner)] += static_cast<int>(bytes);
      room -= bytes;
      next.data += bytes;
      next.bytes -= bytes;
      if (next.bytes == 0) of_owner.pop_back();
    }
  }
  return !piece_.empty();
}

void ShardPieces::Pack(int owner, std::byte* part) const {
  for (const Shard& shard : piece_) {
    if (shard.owner == owner) part = std::copy_n(shard.data, shard.bytes, part);
  }
}

void ShardPieces::Unpack(int owner, const std::byte* part) const {
  for (const Shard& shard : piece_) {
    if (shard.owner != owner) continue;
    std::copy_n(part, shard.bytes, shard.data);
    part += shard.bytes;
  }
}

void SumInOrder(absl::Span<const float* const> parts, int64_t count, float* sum) {
  std::copy(parts[0], parts[0] + count, sum);
  for (const float* const part : parts.subspan(1)) {
    for (int64_t i = 0; i < count; ++i) sum[i] += part[i];
  }
}

}  // namespace neap
