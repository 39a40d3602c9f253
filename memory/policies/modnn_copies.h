// The simulated times of copies in one direction, for moDNN's scheduler (TPDS 2019, 5.2.1, Fig. 3).
// Private to memory/policies/modnn.cc.
//
// A copy is inserted into the first gap that is long enough: whether to offload a tensor is decided
// when its bytes are needed, but the copy then begins as soon as the tensor is complete.
//
//   stream   [==a==]      [==b==]          c may begin at `earliest`, and ends in the gap
//                  [=c=]
//            --------^earliest------> time
//
//   ModnnCopies out(8e9);
//   const double end = out.Insert(complete_seconds, bytes);
//   out.Undo();   // takes back the copies since the last Keep()
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace neap {

class ModnnCopies {
 public:
  // 0 bytes per second: copies take no time.
  explicit ModnnCopies(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  double SecondsOf(int64_t bytes) const {
    return bytes_per_second_ > 0 ? static_cast<double>(bytes) / bytes_per_second_ : 0;
  }
  // The end of the last copy.
  double end() const { return busy_.empty() ? 0 : busy_.back().second; }

  // Returns when the copy ends. `earliest` is when it may begin.
  double Insert(double earliest, int64_t bytes) {
    const double seconds = SecondsOf(bytes);
    auto next = std::upper_bound(busy_.begin(), busy_.end(), std::pair(earliest, kForever));
    double begin = earliest;
    if (next != busy_.begin()) begin = std::max(begin, std::prev(next)->second);
    for (; next != busy_.end() && next->first < begin + seconds; ++next)
      begin = std::max(begin, next->second);
    inserted_.push_back(begin);
    busy_.insert(next, {begin, begin + seconds});
    return begin + seconds;
  }
  void Keep() { inserted_.clear(); }
  void Undo() {
    for (auto begin = inserted_.rbegin(); begin != inserted_.rend(); ++begin) {
      busy_.erase(std::find_if(std::make_reverse_iterator(busy_.end()), busy_.rend(),
                               [&](const auto& copy) { return copy.first == *begin; })
                      .base() -
                  1);
    }
    inserted_.clear();
  }

 private:
  static constexpr double kForever = 1e300;

  double bytes_per_second_;
  std::vector<std::pair<double, double>> busy_;  // begin, end; in order
  std::vector<double> inserted_;                 // begins since the last Keep()
};

}  // namespace neap
