// The items of moDNN (Chen et al., "moDNN: Memory Optimal Deep Neural Network Training on Graphics
// Processing Units", TPDS 2019, section 7), and the training of its six networks that they share.
//
// A batch is run in rounds of the sub-batch that the paper's rule selects. A round is planned as an
// iteration of so many images, because neap splits a batch with batch norms, which the ResNets
// have, only with the statistics of each part; the paper splits them without a word. The update is
// thus counted in every round, where the paper has one for the batch.
//
//   ASSIGN_OR_RETURN(const std::optional<Rounds> rounds,
//                    PlanRounds(net, 64, {.budget_bytes = 12 * kGiB, .policy = "modnn"}, target));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/paper/paper_item.h"
#include "neap/core/base/units.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/policies/modnn_sub_batch.h"

namespace neap::apps::modnn {

// The memory of the paper's K40.
inline constexpr int64_t kK40Bytes = 12 * kGiB;

struct Net {
  const char* name;   // in the paper
  const char* known;  // as neap knows it
  int64_t batch;      // of the paper
  std::optional<int64_t> image = {};
};
std::vector<Net> NetsOf(const PaperRun& run);
// "VGG-16, batch 256"
std::string TitleOf(const Net& net);

// The network for so many images, with gradient descent as in the paper: no momentum.
absl::StatusOr<Graph> BuildAt(const Net& net, int64_t images);
ProgramOptions Lowering();

// Equations 6 to 8 with the workspaces of the fastest engines at so many images.
absl::StatusOr<ModnnMemory> MemoryAt(const Net& net, int64_t images, const PlanTarget& target);
// The sub-batch for a budget, made smaller if all rounds can have as many images then.
absl::StatusOr<int64_t> SelectedImages(const Net& net, int64_t budget_bytes,
                                       const PlanTarget& target);

// A batch of the network.
struct Rounds {
  int64_t images = 0;  // of a round
  int64_t rounds = 0;
  double seconds = 0;  // of the batch
  double moved_bytes = 0;
  int64_t peak_bytes = 0;
};
// Absent if it does not fit.
absl::StatusOr<std::optional<Rounds>> PlanRounds(const Net& net, int64_t images,
                                                 const PlannerOptions& options,
                                                 const PlanTarget& target);
// Memory is no object: whole batches under policy liveness.
absl::StatusOr<Rounds> Ideal(const Net& net, const PlanTarget& target);
// The faster of vDNN-all and vDNN-conv, or what needs no vDNN at all; absent if neither fits.
absl::StatusOr<std::optional<Rounds>> Vdnn(const Net& net, int64_t images, int64_t budget_bytes,
                                           const PlanTarget& target);

// modnn_memory.cc
absl::StatusOr<PaperReport> Figure9(const PaperRun& run);
absl::StatusOr<PaperReport> Figure13(const PaperRun& run);
// modnn_speed.cc
absl::StatusOr<PaperReport> Figure10(const PaperRun& run);
absl::StatusOr<PaperReport> Figure11(const PaperRun& run);
absl::StatusOr<PaperReport> Figure12(const PaperRun& run);
absl::StatusOr<PaperReport> Figure14(const PaperRun& run);
// modnn_ranks.cc
absl::StatusOr<PaperReport> Figure17(const PaperRun& run);
absl::StatusOr<PaperReport> Figure18(const PaperRun& run);
absl::StatusOr<PaperReport> Figure19(const PaperRun& run);

}  // namespace neap::apps::modnn
