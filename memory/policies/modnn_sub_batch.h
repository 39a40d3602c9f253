// moDNN's sub-batch (TPDS 2019, section 5.1): how many images a batch is run in at a time, chosen
// by a rule before anything is planned.
//
//   tasks    [1 2 3 4 5 6][7 8 ...       any 15% of the tasks in a row must fit the budget at once,
//   bytes    |  with W and the largest    with all weights, their gradients and the largest
//            |  workspace of them         workspace of these tasks (equation 8)
//
// The tasks are those of forward and backward, without updates. Activations grow with the
// sub-batch, so the largest one that fits is found at once; workspaces depend on it in no simple
// way, so they are profiled at the sub-batch that was selected, and it is selected again, until it
// stays the same (Fig. 2). It is rounded down to a multiple of 64, or of the largest power of two
// below that.
//
//   const ModnnMemory memory = ModnnMemoryOf(program, WithoutWorkspaces(program));
//   memory.SelectionBytes(32);  // equation 8
//   memory.LeastBytes(1);       // equation 7
//   ASSIGN_OR_RETURN(const ModnnSubBatch selected, SelectSubBatch(256, 12 * kGiB, profile));
//
// Plans that compare numbers of sub-batches by their times are in memory/program_choice.h.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "neap/core/program/program.h"

namespace neap {

// The part of the tasks that must fit together: the paper's alpha.
inline constexpr double kModnnShare = 0.15;

// The bytes of a network, whatever the sub-batch, as equations 6 to 8 need them.
struct ModnnMemory {
  // Some tasks: the bytes of their data for an image, each counted once, and their largest
  // workspace.
  struct Tasks {
    double image_bytes = 0;
    int64_t workspace_bytes = 0;
    int64_t weight_bytes = 0;  // the part of the weights that they use
  };
  int64_t weight_bytes = 0;    // S_W: parameters, their gradients and the optimizer's state
  std::vector<Tasks> single;   // by task, without workspaces
  std::vector<Tasks> windows;  // of kModnnShare of the tasks

  // Equation 7 for a sub-batch of `images`, without workspaces.
  int64_t LeastBytes(int64_t images) const;
  // The same if weights may leave as well (5.1.1).
  int64_t LeastBytesWithoutWeights(int64_t images) const;
  // Equation 8.
  int64_t SelectionBytes(int64_t images) const;
};

// `workspaces`: by StepId, of the fastest engine. Tensors are taken to grow with the batch, except
// those of the weights. The program has exact accounting and one sub-batch.
ModnnMemory ModnnMemoryOf(const Program& program, const std::vector<int64_t>& workspaces);

// No step has a workspace.
std::vector<int64_t> WithoutWorkspaces(const Program& program);

// Rounded down to a multiple of 64 where it is more than that, else to a power of two; at least 1.
int64_t RegularSubBatch(int64_t images);

struct ModnnSubBatch {
  int64_t images = 0;
  int profiles = 0;  // until it stayed the same
};

// The largest sub-batch, up to `batch`, for which equation 8 is within the budget, with the
// workspaces that `profile` finds at it; 1 if none is. Errors: those of `profile`.
absl::StatusOr<ModnnSubBatch> SelectSubBatch(
    int64_t batch, int64_t budget_bytes,
    absl::FunctionRef<absl::StatusOr<ModnnMemory>(int64_t images)> profile);

}  // namespace neap
