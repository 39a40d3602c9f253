#include "neap/layers/collectives/rank_sums.h"

#include <algorithm>

namespace neap {

template <typename Visit>
Packing::Position Packing::Walk(Position begin, const Visit& visit) const {
  int64_t packed = 0;
  Position at = begin;
  while (packed < piece_values_ && at.tensor < tensors_.size()) {
    const Summand& tensor = tensors_[at.tensor];
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
  end_ = Walk(begin_, [&](const Summand& tensor, int64_t first, int64_t count, int64_t place) {
    for (int64_t i = 0; i < count; ++i) piece[place + i] = tensor.weight * tensor.data[first + i];
    packed = place + count;
  });
  return packed;
}

void Packing::Unpack(const float* piece) {
  Walk(begin_, [&](const Summand& tensor, int64_t first, int64_t count, int64_t place) {
    std::copy_n(piece + place, count, tensor.data + first);
  });
}

void SumInOrder(absl::Span<const float* const> parts, int64_t count, float* sum) {
  std::copy(parts[0], parts[0] + count, sum);
  for (const float* const part : parts.subspan(1)) {
    for (int64_t i = 0; i < count; ++i) sum[i] += part[i];
  }
}

}  // namespace neap
