// Liveness: when each tensor must hold its value, over the runs of an iteration (SuperNeurons 3.2:
// the IN and OUT sets of all steps, as intervals).
//
// Runs are the program's steps in order, with forward steps run again between them where a plan
// rebuilds what it has dropped. So a tensor can live several times: each time that it is written, a
// new life begins, and the one before ended with its last use.
//
//   run       0 conv  1 relu  2 loss | 3 loss'  4 relu again  5 relu'  6 conv'
//   input     [======================================================)   it is given: begins at 0
//   conv             [=======================================)
//   relu             [========)                [=======================)  two lives
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
  bool recompute = false;  // a forward step again: reads `rerun_reads`, leaves state alone
  friend bool operator==(const Run&, const Run&) = default;
};
using ComputeSequence = std::vector<Run>;

// Every step once.
ComputeSequence ProgramOrder(const Program& program);

// What a run reads, also what it adds to; and what it defines.
std::vector<TensorId> RunReads(const Program& program, const Run& run);
std::vector<TensorId> RunWrites(const Program& program, const Run& run);

// Half-open, in positions of the sequence.
struct Lifetime {
  TensorId tensor;
  int begin = 0;             // the run that defines it; 0 for what is there before
  int end = 0;               // one past the last run that touches it; persistent: one past all
  std::vector<int> uses;     // every run that touches it, ascending
  std::vector<int> changes;  // those that write it or add to it
};

// In the order in which they begin; those that begin together, by TensorId. A tensor that no run
// touches has none (an unused input), unless it is persistent.
std::vector<Lifetime> Lifetimes(const Program& program, const ComputeSequence& runs);

}  // namespace neap
