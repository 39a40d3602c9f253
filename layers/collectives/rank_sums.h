// Sums of the ranks' tensors in the order of the ranks, for ranks on CPUs.
//
// Tensors of a bucket are packed, one after another, into pieces of a fixed size, so that the
// memory beside the plan is small however large the network is:
//
//   tensors   | conv1.weight.grad      | conv1.bias.grad | fc.weight.grad ...
//   pieces    | 0               | 1               | 2               | ...
//
//   Packing packing(bucket, kPieceValues);
//   while (packing.Pack(piece.data()) > 0) {  // each value multiplied by the rank's weight
//     packing.Unpack(piece.data());           // after `piece` was summed over all ranks
//   }
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "neap/core/device/communicator.h"

namespace neap {

// 4 MiB.
inline constexpr int64_t kPieceValues = int64_t{1} << 20;

class Packing {
 public:
  Packing(absl::Span<const Summand> tensors, int64_t piece_values)
      : tensors_(tensors), piece_values_(piece_values) {}

  // Fills the next piece and returns its number of values; 0 if all were packed.
  int64_t Pack(float* piece);
  // Replaces the values of the piece that was packed last.
  void Unpack(const float* piece);

 private:
  struct Position {
    size_t tensor = 0;
    int64_t value = 0;
  };
  // Calls `visit(tensor, first value, count, place in the piece)` for the values from `begin` on,
  // and returns where the piece ends.
  template <typename Visit>
  Position Walk(Position begin, const Visit& visit) const;

  absl::Span<const Summand> tensors_;
  const int64_t piece_values_;
  Position begin_, end_;  // of the piece that was packed last
};

// sum[i] = parts[0][i] + parts[1][i] + ..., in this order. There is at least one part.
void SumInOrder(absl::Span<const float* const> parts, int64_t count, float* sum);

}  // namespace neap
