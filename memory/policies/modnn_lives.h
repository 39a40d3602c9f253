// The knowledge of moDNN's scheduler before its walk: which lives may move, where those lie that
// may not, what each run needs, and when runs are expected to begin. Private to
// memory/policies/modnn.cc.
//
//   moves         activations, their gradients, images; parameters whose home is the host
//   fixed area    [labels][gradients of parameters][results]   placed beforehand by their lifetimes
//   apart         parameters, optimizer state: not in the schedule at all
//
//   const ModnnLives lives(request);
//   lives.SecondsUntil(3, 9);   // T and EST of equation 9
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/base/units.h"
#include "neap/core/program/liveness.h"
#include "neap/memory/policies/schedule.h"

namespace neap {

class ModnnLives {
 public:
  // *Ownership*: borrows what the request refers to.
  explicit ModnnLives(const ScheduleRequest& request);

  size_t size() const { return liveness_.lives.size(); }
  const Lifetime& life(size_t i) const { return liveness_.lives[i]; }
  const Tensor& tensor(size_t i) const { return program_.tensor(life(i).tensor); }
  int64_t BytesOf(size_t i) const { return RoundUp(tensor(i).spec.size_bytes(), kBlockBytes); }
  bool IsFromHost(size_t i) const { return tensor(i).home == Home::kHost; }
  bool IsApart(size_t i) const {
    return life(i).uses.empty() || (IsPersistent(tensor(i).role) && !IsFromHost(i));
  }
  // It stays until the end of the iteration.
  bool IsResult(size_t i) const { return !IsFromHost(i) && life(i).end > life(i).uses.back() + 1; }
  bool IsFixed(size_t i) const { return fixed_offset_[i].has_value(); }
  int64_t FixedOffset(size_t i) const { return *fixed_offset_[i]; }
  int64_t fixed_bytes() const { return fixed_bytes_; }
  // The life whose bytes this one takes over at the run, if both move.
  std::optional<size_t> TakenOver(size_t i, int position) const;

  absl::Span<const Configuration> Configurations(int position) const {
    return configurations_[static_cast<size_t>(position)];
  }
  const Configuration& Smallest(int position) const;
  // From the beginning of run `position` to that of run `later`, if each is the fastest.
  double SecondsUntil(int position, int later) const {
    return until_[static_cast<size_t>(later)] - until_[static_cast<size_t>(position)];
  }
  // 5.2.2: the bytes of the run's operands and smallest workspace, and of what must stay beside
  // them because it was made and is not used before.
  int64_t ExpectedBytes(int position) const { return expected_[static_cast<size_t>(position)]; }

 private:
  void PlaceFixed();
  void Expect();

  const Program& program_;
  const Liveness& liveness_;
  const std::vector<absl::Span<const Configuration>>& configurations_;
  std::vector<std::optional<int64_t>> fixed_offset_;  // by life
  int64_t fixed_bytes_ = 0;
  std::vector<double> until_ = {0};  // by position: the sum of the runs before
  std::vector<int64_t> expected_;    // by position
};

}  // namespace neap
