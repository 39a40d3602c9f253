// Live sweep: how many bytes are live at every run of a sequence, for a search that tries thousands
// of sequences.
//
// It sums up what Lifetimes() and ProveInPlace() say (core/program/liveness.h), without the lists
// of uses and of changes, which take most of their time, and in memory that it keeps:
//
//   runs      0 conv   1 bn   2 conv ..  8 conv'  9 bn'
//   conv      [=======================................)      + at its begin, - at its end
//   bn                 [==========)         [==========)     moved: absent from 3 to 8
//   change    +conv    +bn    .. -bn       +bn ..    -bn
//
//   LiveSweep sweep(program, /*in_place=*/true);
//   sweep.Walk(runs, moved);
//   sweep.changes().at(8);           // what comes before run 8, less what goes
//   sweep.absences().front().begin;  // of a tensor of `moved`: one past its last use in forward
//
// Persistent tensors are not counted. *Ownership*: borrows the program. *Complexity*: O(operands).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"

namespace neap {

// An absence of a tensor between forward and backward: the value that forward computed is not used
// in the positions [begin, end).
struct Absence {
  int64_t bytes = 0;
  int complete = 0;  // one past the run that computed it
  int begin = 0;
  int end = 0;  // at most `begin` if it has no use after forward
};

class LiveSweep {
 public:
  LiveSweep(const Program& program, bool in_place);

  // Absences are listed for the tensors that `moved` marks. It has an entry for every tensor, by
  // TensorId.
  void Walk(const ComputeSequence& runs, const std::vector<bool>& moved);

  // By position, and one more; valid until the next walk, as are the absences. In place, a life
  // takes over the bytes of another one position before that one ends.
  std::vector<int64_t>& changes() { return changes_; }
  // In order of `complete`.
  std::vector<Absence>& absences() { return absences_; }

 private:
  struct Operands {
    std::vector<TensorId> defines, touches;
    std::vector<std::pair<TensorId, TensorId>> in_place;  // {written, read}
  };
  struct Life {
    int64_t bytes = 0;
    int begin = 0, end = 0;
    bool is_wanted = false, takes_over = false, is_taken = false;
    int absent_from = 0, absent_until = 0;  // the latter is 0 before the first use after forward
  };
  struct InPlace {
    int position;
    size_t to, from;  // lives
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  Operands OperandsOf(const Run& run, bool in_place) const;
  void Begin(TensorId tensor, int position, bool is_wanted);
  void Touch(TensorId tensor, int position, bool in_forward);
  void ProveInPlace();
  void AddUp(size_t runs);

  const Program& program_;
  const std::vector<TensorId> results_;  // of inference
  std::vector<Operands> first_, again_;  // by StepId, of its first run and of its reruns
  std::vector<Life> lives_;              // in order of `begin`, except for those of given tensors
  std::vector<size_t> open_;             // by TensorId: its latest life, or kNone
  std::vector<InPlace> in_place_;        // what may be in place, in order of position
  std::vector<int64_t> changes_;
  std::vector<Absence> absences_;
};

}  // namespace neap
