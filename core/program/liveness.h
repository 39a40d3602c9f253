// In-place: results that take over the bytes of a tensor they are computed from.
//
// The kernels say where they could ({written, read} pairs of a step); this pass proves where they
// may: the old value is read by this run, once, and by none after it, the sizes agree, and the
// bytes are the iteration's own (a parameter or the batch is never overwritten). SuperNeurons does
// not have it, so it can be left out.
//
//   runs         0   1   2   3
//   bn1          [=======)             last read by run 1 ...
//   relu1            [===========)     ... which writes relu1: one region, from 0 to 4
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"

namespace neap {

// By index of the life that begins: the life whose bytes it takes over.
using Replacements = std::vector<std::optional<size_t>>;

Replacements ProveInPlace(const Program& program, const ComputeSequence& runs,
                          const std::vector<Lifetime>& lives);

// An order of runs, and all that follows from it alone.
struct Liveness {
  ComputeSequence runs;
  std::vector<Lifetime> lives;
  Replacements replaces;
};
// Without `in_place` no life takes over another's bytes.
Liveness FindLiveness(const Program& program, ComputeSequence runs, bool in_place);

}  // namespace neap
