// Sums of the ranks' tensors in the order of the ranks, and exchanges of shards, for ranks on CPUs.
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
//
// Sharded tensors go in pieces, too, of which each rank's parts lie together. They have the same
// size, until a rank has nothing left, so that all ranks have the same work:
//
//   tensors   | a0   | a1   | b0 | b1 |  c0  | c1 | d1 ...      part of the rank 0 or 1
//   pieces    | a0   | a1   |   | b0 c0 | b1 c1 |   ...
//
//   ShardPieces pieces(tensors, kPieceValues * sizeof(float));
//   while (pieces.Next()) {
//     pieces.Pack(rank, own.data());  // the bytes of the piece that the rank owns, for the others
//     for (int owner = 0; owner < ranks; ++owner) pieces.Unpack(owner, parts[owner]);
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/device/communicator.h"

namespace neap {

// 4 MiB.
inline constexpr int64_t kPieceValues = int64_t{1} << 20;

class Packing {
 public:
  Packing(absl::Span<const ReduceBuffer> tensors, int64_t piece_values)
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

  absl::Span<const ReduceBuffer> tensors_;
  const int64_t piece_values_;
  Position begin_, end_;  // of the piece that was packed last
};

class ShardPieces {
 public:
  // There is at least one tensor. Pieces have at most `piece_bytes`, which is 4 or more for a rank.
  ShardPieces(absl::Span<const ShardedTensor> tensors, int64_t piece_bytes);

  // Goes on to the next piece; false if there is none.
  bool Next();
  // The bytes of the piece that each rank owns, by rank.
  const std::vector<int>& bytes() const { return bytes_; }
  void Pack(int owner, std::byte* part) const;
  void Unpack(int owner, const std::byte* part) const;

 private:
  struct Shard {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int owner = 0;
  };

  const int64_t part_bytes_;              // of a piece, for each rank
  std::vector<std::vector<Shard>> left_;  // by owner, of later pieces, the next one last
  std::vector<Shard> piece_;              // in order
  std::vector<int> bytes_;
};

// sum[i] = parts[0][i] + parts[1][i] + ..., in this order. There is at least one part.
void SumInOrder(absl::Span<const float* const> parts, int64_t count, float* sum);

}  // namespace neap
