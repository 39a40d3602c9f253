// How a batch is divided among ranks that differ in memory or speed, so that they finish together.
//
// Only a plan for a number of images says how long a rank takes for it: with less memory the rank
// rebuilds or moves more, and from some number on it has no plan. So a few splits are planned for.
// The first is even; each further one makes the ranks finish together if their times are straight
// lines between those known so far.
//
//   BatchSplit search(512, 2);
//   while (const std::optional<std::vector<int64_t>> split = search.Next()) {
//     search.Add(predict(*split));  // {0.031, 0.048}: seconds by rank
//   }
//   search.best();  // {300, 212}
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace neap {

// Parts of a batch that differ by one image at most; the first are larger.
std::vector<int64_t> EvenParts(int64_t batch, int64_t ranks);

class BatchSplit {
 public:
  // Parts are multiples of batch / 64, apart from remainders, and at least an image each. The batch
  // has an image for each rank.
  BatchSplit(int64_t batch, int ranks);

  // The next split to predict, by rank; nullopt if no other is expected to be faster.
  std::optional<std::vector<int64_t>> Next();
  // The seconds that ranks take for their parts of the split that Next() returned last; infinity
  // for a part that does not fit.
  void Add(const std::vector<double>& seconds);

  // The fastest of the splits predicted, the first of several; nullopt if none fits.
  const std::optional<std::vector<int64_t>>& best() const { return best_; }
  // The seconds that the slowest rank takes for that split.
  double best_seconds() const { return best_seconds_; }

 private:
  // Seconds by images, for a rank.
  using Times = std::map<int64_t, double>;
  // The most images that the rank is expected to compute in so many seconds.
  double ImagesIn(double seconds, const Times& times) const;
  std::optional<std::vector<int64_t>> Expected() const;

  const int64_t batch_;
  const int64_t unit_;
  std::vector<Times> times_;  // by rank
  std::vector<std::vector<int64_t>> tried_;
  std::optional<std::vector<int64_t>> best_;
  double best_seconds_ = 0;
};

}  // namespace neap
