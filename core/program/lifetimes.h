// Liveness: when each tensor must hold its value, over the runs of an iteration (SuperNeurons 3.2:
// the IN and OUT sets of all steps, as intervals).
//
// Runs are the program's steps in order, with forward steps run again between them to recompute
// dropped tensors. A tensor can therefore have several lifetimes: every write begins a new one, and
// the previous one ended with its last use.
//
//   run       0 conv  1 relu  2 loss | 3 loss'  4 relu again  5 relu'  6 conv'
//   input     [======================================================)   given: begins at 0
//   conv             [=======================================)
//   relu             [========)                [=======================)  two lifetimes
//   weight    [=============================================================)  persistent
//
// *Complexity*: O(operands).
#pragma once

#include <vector>

#include "neap/core/program/program.h"

namespace neap {

// One run of a step.
struct Run {
  StepId step;
  bool recompute = false;  // a forward step run again: reads `rerun_reads`, does not change state
  friend bool operator==(const Run&, const Run&) = default;
};
using ComputeSequence = std::vector<Run>;

// Every step once, in order.
ComputeSequence ProgramOrder(const Program& program);

// The tensors that a run reads, including those that it accumulates into, and those that it
// defines.
std::vector<TensorId> RunReads(const Program& program, const Run& run);
std::vector<TensorId> RunWrites(const Program& program, const Run& run);

// A half-open interval of positions in the sequence.
struct Lifetime {
  TensorId tensor;
  int begin = 0;  // the run that defines the tensor; 0 if it is given
  // One past the last run that uses it; of persistent tensors, and of the results of inference,
  // one past all runs.
  int end = 0;
  std::vector<int> uses;     // every run that uses it, ascending
  std::vector<int> changes;  // the runs that write it or accumulate into it
};

// Sorted by begin, then by TensorId. A tensor that no run uses (an unused input) has no lifetime
// unless it is persistent.
std::vector<Lifetime> Lifetimes(const Program& program, const ComputeSequence& runs);

}  // namespace neap
