#include "neap/core/run/session/lower_session.h"

#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/shards.h"
#include "neap/core/run/external.h"
#include "neap/core/run/ranks.h"

namespace neap {

namespace {

// What is not the planner's choice: for the batch of all ranks or of one, with the whole optimizer
// or a part of it.
struct ProgramKind {
  Mode mode = Mode::kTraining;
  RankShare share;
  OptimizerShard shard;
};

absl::StatusOr<Program> LowerAs(const ProgramKind& kind, const Graph& graph,
                                const TrainingOptions& options, const RankShare& share,
                                const DeviceDescription& device, const ProgramChoice& choice) {
  Homes homes = options.homes;
  for (TensorHome& one : HomesOf(options.external)) homes.push_back(std::move(one));
  return Lower(graph,
               {.mode = kind.mode,
                .optimizer = options.optimizer,
                .trainable = !options.inference_only,
                .offload_params = choice.offload_params,
                .homes = std::move(homes),
                .sub_batches = choice.sub_batches,
                .batch_norm_in_parts = choice.batch_norm_in_parts,
                .accumulation = {.batches = options.inference_only ? 1 : options.accumulate},
                .share = kind.share,
                .fusion_batch = FusionBatch(share),
                .sync_batch_norm = options.sync_batch_norm,
                .shard = kind.shard,
                .bucket_bytes = choice.buckets.bucket_bytes,
                .last_bucket_bytes = choice.buckets.last_bucket_bytes,
                .buckets_in_flight = choice.buckets_in_flight},
               device);
}

OptimizerShard ShardFor(const TrainingOptions& options, const RankShare& share) {
  return ShardOf(share, options.shard_optimizer && !options.inference_only);
}

}  // namespace

absl::StatusOr<Program> LowerChosen(const Graph& graph, const TrainingOptions& options,
                                    const RankShare& share, const DeviceDescription& device,
                                    const ProgramChoice& choice) {
  const ProgramKind kind = {.mode = options.inference_only ? Mode::kInference : Mode::kTraining,
                            .share = options.inference_only ? RankShare{} : share,
                            .shard = ShardFor(options, share)};
  return LowerAs(kind, graph, options, share, device, choice);
}

absl::StatusOr<LoweredSession> LowerSession(const Graph& graph, const TrainingOptions& options,
                                            const RankShare& share, const DeviceDescription& device,
                                            int64_t budget_bytes, SessionPlanner& planner) {
  const auto lower_with = [&](const ProgramChoice& choice) {
    return LowerChosen(graph, options, share, device, choice);
  };
  absl::StatusOr<ChosenProgram> chosen = planner.Choose(lower_with, budget_bytes);
  RETURN_IF_ERROR(Agree(chosen.status(), {}, options.communicator));
  ProgramChoice choice = chosen->choice;
  for (int64_t* size : {&choice.buckets.bucket_bytes, &choice.buckets.last_bucket_bytes}) {
    ASSIGN_OR_RETURN(*size, OfFirstRank(*size, options.communicator));
  }
  LoweredSession lowered;
  ASSIGN_OR_RETURN(lowered.training, lower_with(choice));
  if (chosen->plan.has_value() && choice == chosen->choice)
    RETURN_IF_ERROR(planner.Keep(lowered.training, budget_bytes, *std::move(chosen->plan)));
  lowered.inference = lowered.training;
  if (options.inference_only) return lowered;
  ASSIGN_OR_RETURN(lowered.inference, LowerInference(graph, lowered.training, device));
  if (ShardFor(options, share).ranks == 1) return lowered;
  // Of inference: its persistent tensors are those of training, and batch norms that need the
  // images of all ranks cannot be trained by one.
  ASSIGN_OR_RETURN(lowered.alone, LowerAs({.mode = Mode::kInference, .share = {}, .shard = {}},
                                          graph, options, share, device, choice));
  return lowered;
}

}  // namespace neap
