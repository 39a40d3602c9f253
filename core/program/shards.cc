#include "neap/core/program/shards.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "neap/core/step/loss_scale.h"

namespace neap {
namespace {

// Parameters that are gathered together.
struct GatherBucket {
  size_t needed_by = 0;  // the first step that reads one of them
  size_t last = 0;       // the step that reads the last of them first
  std::vector<Use> params;
  int64_t bytes = 0;
};

// The bytes of a bucket that is complete. Nothing hides the first one.
int64_t BytesOfBucket(size_t number, const ProgramOptions& options) {
  const int64_t bytes = std::min(options.bucket_bytes, kBucketBytes);
  const bool is_small = number == 0 && options.last_bucket_bytes > 0;
  return is_small ? std::min(bytes, options.last_bucket_bytes) : bytes;
}

// In the order in which the steps need them.
std::vector<GatherBucket> Buckets(const Program& program) {
  std::vector<GatherBucket> buckets;
  std::vector<bool> known(program.tensors.size(), false);
  for (const Step& step : program.steps) {
    if (!IsOfLayer(step.phase)) continue;
    for (const Use& read : step.reads) {
      const Tensor& tensor = program.tensor(read.tensor);
      if (tensor.role != Role::kParam || known[tensor.id.index()]) continue;
      known[tensor.id.index()] = true;
      const bool begins =
          buckets.empty() ||
          (buckets.back().bytes >= BytesOfBucket(buckets.size() - 1, program.options) &&
           buckets.back().last != step.id.index());
      if (begins) buckets.push_back({.needed_by = step.id.index()});
      GatherBucket& bucket = buckets.back();
      bucket.last = step.id.index();
      bucket.params.push_back({tensor.id, {Slot::kParam, static_cast<int>(bucket.params.size())}});
      bucket.bytes += tensor.spec.size_bytes();
    }
  }
  return buckets;
}

}  // namespace

std::vector<Slice> ShardDivision::Next(int64_t elements) {
  std::vector<Slice> slices(owned_.size());
  const int64_t each = elements / std::ssize(owned_);
  if (each < kMinShard) {
    const auto owner = std::min_element(owned_.begin(), owned_.end()) - owned_.begin();
    slices[static_cast<size_t>(owner)].count = elements;
  } else {
    const int64_t even = each / kShardAlignment * kShardAlignment;
    for (size_t rank = 0; rank < slices.size(); ++rank)
      slices[rank] = {.first = static_cast<int64_t>(rank) * even, .count = even};
    slices.back().count = elements - slices.back().first;
  }
  for (size_t rank = 0; rank < slices.size(); ++rank) owned_[rank] += slices[rank].count;
  return slices;
}

OptimizerShard ShardOf(const RankShare& share, bool shard_optimizer) {
  if (!shard_optimizer) return {};
  return {.rank = share.rank, .ranks = share.ranks};
}

absl::Status CheckShard(const ProgramOptions& options, const GraphOptions& net) {
  const OptimizerShard& shard = options.shard;
  if (shard.ranks == 1) return absl::OkStatus();
  const bool is_of_share = shard.rank == options.share.rank && shard.ranks == options.share.ranks;
  if (options.mode == Mode::kTraining && !is_of_share)
    return absl::InvalidArgumentError("the optimizer is sharded over other ranks than the batch");
  if (options.mode == Mode::kTraining && ScalesLoss(net)) {
    return absl::InvalidArgumentError(
        "an optimizer that is sharded over the ranks cannot check the gradients of fp16; bf16 "
        "needs no check");
  }
  if (options.mode == Mode::kTraining &&
      (options.optimizer.clips() || options.optimizer.keeps_average()))
    return absl::InvalidArgumentError(
        "an optimizer that is sharded over the ranks can neither clip gradients, of which each "
        "rank has its own slices only, nor average weights");
  if (!options.offload_params) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "an optimizer that is sharded over the ranks stays on the device; parameters cannot be kept "
      "on the host as well");
}

void GatherParameters(Program& program) {
  if (program.options.shard.ranks == 1 || program.options.mode != Mode::kTraining) return;
  const std::vector<GatherBucket> buckets = Buckets(program);
  std::vector<Step> steps;
  size_t next = 0;
  for (Step& step : program.steps) {
    // One bucket ahead, so that sums in forward do not wait for all parameters.
    while (next < buckets.size() && (next == 0 || buckets[next - 1].needed_by == step.id.index())) {
      const GatherBucket& bucket = buckets[next++];
      steps.push_back({.id = {},
                       .layer = program.steps[bucket.needed_by].layer,
                       .phase = Phase::kAllGather,
                       .accumulates = bucket.params,
                       .accumulates_natively = {Slot::kParam}});
    }
    steps.push_back(std::move(step));
  }
  for (size_t i = 0; i < steps.size(); ++i) steps[i].id = StepId(i);
  program.steps = std::move(steps);
}

}  // namespace neap
