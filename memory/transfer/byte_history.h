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
// *Complexity*: O((1 + pieces cut or visited) log pieces); a Set() adds at most two pieces.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

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
    auto piece = pieces_.upper_bound(region.offset);
    if (piece != pieces_.begin()) --piece;
    for (; piece != pieces_.end() && piece->first < region.end(); ++piece) {
      if (EndOf(piece) > region.offset) visit(piece->second);
    }
  }

  void Set(const Region& region, const Value& value) {
    Split(region.offset);
    Split(region.end());
    pieces_.erase(pieces_.lower_bound(region.offset), pieces_.lower_bound(region.end()));
    pieces_.emplace(region.offset, value);
  }

 private:
  using Pieces = std::map<int64_t, Value>;  // by first byte; each extends to the next

  int64_t EndOf(typename Pieces::const_iterator piece) const {
    const auto next = std::next(piece);
    return next == pieces_.end() ? std::numeric_limits<int64_t>::max() : next->first;
  }
  void Split(int64_t at) {
    auto after = pieces_.upper_bound(at);
    const Value value = after == pieces_.begin() ? nothing_ : std::prev(after)->second;
    pieces_.emplace(at, value);
  }

  Value nothing_;
  Pieces pieces_;
};

}  // namespace neap
