// In-place results: those that overwrite a tensor from which they are computed.
//
// Kernels declare where they could work in place ({written, read} pairs of a step). This pass
// proves where they may: the old value is read by this run, once, and by none after it, the sizes
// agree, and the tensor is not given (a parameter or the batch is never overwritten). SuperNeurons
// does not work in place, so the pass can be left out.
//
//   runs         0   1   2   3
//   bn1          [=======)             last read by run 1 ...
//   relu1            [===========)     ... which writes relu1: one region, from 0 to 4
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"

namespace neap {

// For each lifetime, by index: the lifetime whose bytes it overwrites in place, if any.
using Replacements = std::vector<std::optional<size_t>>;

Replacements ProveInPlace(const Program& program, const ComputeSequence& runs,
                          const std::vector<Lifetime>& lives);

// An order of runs, and everything that follows from it alone.
struct Liveness {
  ComputeSequence runs;
  std::vector<Lifetime> lives;
  Replacements replaces;
  std::vector<size_t> used;        // the lives that each run uses, ascending, run after run
  std::vector<size_t> used_begin;  // by position, and one more: where those of the run begin

  absl::Span<const size_t> UsedBy(int position) const {
    const size_t begin = used_begin[static_cast<size_t>(position)];
    return {used.data() + begin, used_begin[static_cast<size_t>(position) + 1] - begin};
  }
};
// Without `in_place`, `replaces` is empty for every lifetime.
Liveness FindLiveness(const Program& program, ComputeSequence runs, bool in_place);

}  // namespace neap
