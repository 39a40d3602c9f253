// Spared reruns: an order of runs without one of its reruns, because what an earlier rerun of the
// step has rebuilt is kept until then. Private to the rebuild frontier.
//
//   runs               .. conv* bn* conv2' .. conv* bn* bn' .. conv* conv'     * a rerun
//   without the last   .. conv* bn* conv2' .. conv* bn* bn' ..       conv'     ' a backward step
//
// In the second order the result of conv is kept from its second rerun on.
//
// Reruns whose results nothing reads any more, such as those that only led to it, go too.
//
//   const SparedReruns spared(program);
//   ComputeSequence runs = spared.Without(order.runs, /*position=*/307);
//
// *Ownership*: keeps what the runs of the program read and write.
#pragma once

#include <cstddef>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"

namespace neap {

class SparedReruns {
 public:
  explicit SparedReruns(const Program& program);

  // The run at `position` must be a rerun, and not the first one of its step. If every rerun of
  // `runs` has a result that is read, only runs before it are removed with it, and the same is true
  // of what remains. *Complexity*: O(operands of all runs).
  ComputeSequence Without(const ComputeSequence& runs, size_t position) const;

 private:
  struct Operands {
    std::vector<TensorId> reads, writes;
  };
  const Operands& Of(const Run& run) const {
    return (run.recompute ? again_ : first_)[run.step.index()];
  }

  size_t tensors_;
  std::vector<Operands> first_, again_;  // by StepId, of its first run and of its reruns
};

}  // namespace neap
