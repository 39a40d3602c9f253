// The last event at each byte: a value for every byte of an address range, stored as pieces of
// equal value.
//
//   value   nothing | a a a a | b b | a | nothing      Set(region of b, b) has split a
//   offset  0       4         8    10   11
//
//   ByteHistory<int64_t> last_use(/*nothing=*/-1);
//   last_use.Set(region, action);
//   last_use.ForEach(region, [&](int64_t action) { wait_for = std::max(wait_for, action); });
//
// *Complexity*: O(log pieces + pieces cut or visited), and a move of the pieces behind them in one
// array, which is faster than a tree for the thousands of an arena. A Set() adds at most two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "neap/core/base/region.h"

namespace neap {

template <typename Value>
class ByteHistory {
 public:
  // `nothing` is the value of bytes at which nothing has happened yet. It can be visited too.
  explicit ByteHistory(Value nothing) : nothing_(std::move(nothing)) {}

  // Visits the values of the region's bytes in address order, each piece once.
  template <typename Visit>
  void ForEach(const Region& region, const Visit& visit) const {
    auto piece = FirstAfter(region.offset);
    if (piece != pieces_.begin()) --piece;
    for (; piece != pieces_.end() && piece->begin < region.end(); ++piece) {
      if (EndOf(piece) > region.offset) visit(piece->value);
    }
  }

  void Set(const Region& region, const Value& value) {
    if (region.bytes == 0) return;
    auto first =
        std::lower_bound(pieces_.begin(), pieces_.end(), region.offset,
                         [](const Piece& piece, int64_t offset) { return piece.begin < offset; });
    const Place last = FirstAfter(region.end());
    const Piece behind = {region.end(),
                          last == pieces_.begin() ? nothing_ : std::prev(last)->value};
    // Two pieces take the places of those that begin in the region, or at its end.
    const std::ptrdiff_t replaced = last - first;
    if (replaced > 2) pieces_.erase(first + 2, last);
    if (replaced < 2) first = pieces_.insert(first, static_cast<size_t>(2 - replaced), behind);
    first[0] = {region.offset, value};
    first[1] = behind;
  }

 private:
  struct Piece {
    int64_t begin = 0;  // it extends to the next one
    Value value;
  };
  using Place = typename std::vector<Piece>::const_iterator;

  Place FirstAfter(int64_t offset) const {
    return std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                            [](int64_t at, const Piece& piece) { return at < piece.begin; });
  }
  int64_t EndOf(Place piece) const {
    const Place next = std::next(piece);
    return next == pieces_.end() ? std::numeric_limits<int64_t>::max() : next->begin;
  }

  Value nothing_;
  std::vector<Piece> pieces_;  // in order
};

}  // namespace neap
