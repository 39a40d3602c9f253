#include "neap/core/program/reduce_gradients.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/layer_tensors.h"
#include "neap/core/program/shards.h"

namespace neap {
namespace {

bool IsMetrics(const Program& program, TensorId tensor) {
  return std::any_of(program.losses.begin(), program.losses.end(),
                     [&](const LossPort& loss) { return loss.metrics == tensor; });
}

// Steps of the optimizer, which use what the ranks have summed.
bool UsesSums(Phase phase) {
  return phase == Phase::kUpdate || phase == Phase::kCheckGradients || phase == Phase::kUpdateScale;
}

struct SumBucket {
  size_t complete_at = 0;  // the step after which all of its tensors are complete
  std::vector<TensorId> tensors;
  int64_t bytes = 0;
};

class Reducer {
 public:
  explicit Reducer(Program& program) : program_(program) {}

  void Run() {
    Divide();
    FormBuckets();
    std::vector<Step> steps;
    size_t begun = 0;
    for (size_t i = 0; i < own_.size(); ++i) {
      const LayerId layer = own_[i].layer;
      std::optional<Step> sum = SumBehind(own_[i]);
      steps.push_back(std::move(own_[i]));
      if (sum.has_value()) steps.push_back(*std::move(sum));
      for (; begun < buckets_.size() && buckets_[begun].complete_at == i; ++begun) {
        AddSums(buckets_[begun], layer, steps);
        AddReady(begun + 1, steps);
      }
    }
    for (Step& step : using_sums_) steps.push_back(std::move(step));
    for (size_t i = 0; i < steps.size(); ++i) steps[i].id = StepId(i);
    program_.steps = std::move(steps);
  }

 private:
  void Divide() {
    for (Step& step : program_.steps) {
      if (UsesSums(step.phase)) {
        using_sums_.push_back(std::move(step));
      } else {
        own_.push_back(std::move(step));
      }
    }
  }

  bool IsSummed(TensorId id) const {
    const Role role = program_.tensor(id).role;
    return role == Role::kParamGrad || role == Role::kState;
  }

  // The summed tensors in the order in which they are complete. Some layers' backward also reads
  // the gradients of their own parameters, which must be the rank's own then.
  void FormBuckets() {
    std::vector<std::optional<size_t>> complete_at(program_.tensors.size());
    for (size_t i = 0; i < own_.size(); ++i) {
      const Step& step = own_[i];
      for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
        for (const Use& use : *uses) {
          const bool is_own = uses != &step.reads || IsChanged(use.tensor, complete_at);
          const bool is_of_all = step.states_of_all_ranks && use.operand.slot == Slot::kState;
          if (IsSummed(use.tensor) && is_own && !is_of_all) complete_at[use.tensor.index()] = i;
        }
      }
    }
    std::vector<std::pair<size_t, TensorId>> order;
    for (const Tensor& tensor : program_.tensors) {
      const std::optional<size_t>& at = complete_at[tensor.id.index()];
      if (at.has_value()) order.emplace_back(*at, tensor.id);
    }
    std::sort(order.begin(), order.end());
    bucket_of_.resize(program_.tensors.size());
    int64_t left = 0;  // bytes that no bucket has
    for (const auto& [at, tensor] : order) left += program_.tensor(tensor).spec.size_bytes();
    for (const auto& [at, tensor] : order) {
      Add(tensor, at, left);
      left -= program_.tensor(tensor).spec.size_bytes();
    }
  }

  static bool IsChanged(TensorId tensor, const std::vector<std::optional<size_t>>& changed_at) {
    return changed_at[tensor.index()].has_value();
  }

  void Add(TensorId tensor, size_t complete_at, int64_t left) {
    const bool is_last = left <= program_.options.last_bucket_bytes;
    const bool is_full =
        !buckets_.empty() &&
        (buckets_.back().bytes >= program_.options.bucket_bytes || (is_last && !last_begun_));
    // What is complete at the same time as the rest of a bucket does not delay it.
    if (buckets_.empty() || (is_full && buckets_.back().complete_at != complete_at)) {
      buckets_.emplace_back();
      last_begun_ = is_last;
    }
    SumBucket& bucket = buckets_.back();
    bucket.complete_at = complete_at;
    bucket.tensors.push_back(tensor);
    bucket.bytes += program_.tensor(tensor).spec.size_bytes();
    bucket_of_[tensor.index()] = buckets_.size() - 1;
  }

  // The sum of what the next step reads, without which forward or backward cannot go on.
  static std::optional<Step> SumBehind(const Step& step) {
    if (step.summed.empty()) return std::nullopt;
    Step sum = {.id = {}, .layer = step.layer, .phase = Phase::kAllReduce};
    for (Operand operand : step.summed) {
      sum.accumulates.push_back({*Find(step.writes, operand), operand});
      sum.accumulates_natively.push_back(operand.slot);
    }
    return sum;
  }

  // One step, or two if ranks update slices of parameters: each gets the sum of its slices of the
  // gradients, but all of the states.
  void AddSums(const SumBucket& bucket, LayerId layer, std::vector<Step>& steps) const {
    Step scatter = {.id = {},
                    .layer = layer,
                    .phase = Phase::kReduceScatter,
                    .accumulates_natively = {Slot::kParamGrad}};
    Step sum = {.id = {},
                .layer = layer,
                .phase = Phase::kAllReduce,
                .accumulates_natively = {Slot::kParamGrad, Slot::kState}};
    int gradients = 0, states = 0;
    for (TensorId id : bucket.tensors) {
      const Tensor& tensor = program_.tensor(id);
      const bool is_state = tensor.role == Role::kState;
      const Operand operand =
          is_state ? Operand{Slot::kState, states++} : Operand{Slot::kParamGrad, gradients++};
      (tensor.shards.empty() ? sum : scatter).accumulates.push_back({id, operand});
    }
    for (Step* step : {&scatter, &sum}) {
      if (!step->accumulates.empty()) steps.push_back(std::move(*step));
    }
  }

  // Adds the steps, in their order, for which the sums that they use have been taken when `begun`
  // buckets have begun.
  void AddReady(size_t begun, std::vector<Step>& steps) {
    const auto in_flight = static_cast<size_t>(program_.options.buckets_in_flight);
    if (in_flight == 0 || begun <= in_flight) return;
    while (!using_sums_.empty() && LastBucket(using_sums_.front()) < begun - in_flight) {
      steps.push_back(std::move(using_sums_.front()));
      using_sums_.pop_front();
    }
  }

  size_t LastBucket(const Step& step) const {
    size_t last = 0;
    for (const std::vector<Use>* uses : {&step.reads, &step.accumulates}) {
      for (const Use& use : *uses) {
        if (bucket_of_[use.tensor.index()].has_value())
          last = std::max(last, *bucket_of_[use.tensor.index()]);
      }
    }
    return last;
  }

  Program& program_;
  std::vector<Step> own_;        // what a rank computes of its images
  std::deque<Step> using_sums_;  // that are not in the result yet
  std::vector<SumBucket> buckets_;
  bool last_begun_ = false;
  std::vector<std::optional<size_t>> bucket_of_;  // by TensorId
};

}  // namespace

void ReduceGradients(Program& program) {
  if (program.options.share.ranks > 1 && program.options.mode == Mode::kTraining)
    Reducer(program).Run();
}

double WeightInSum(const Program& program, const Use& summed) {
  const bool is_statistic =
      summed.operand.slot == Slot::kState && !IsMetrics(program, summed.tensor);
  if (!is_statistic) return 1;
  return static_cast<double>(program.net.batch) /
         static_cast<double>(program.options.share.all_images);
}

uint64_t HashOfCollectives(const Program& program) {
  std::string text;
  for (const Step& step : program.steps) {
    if (!IsCollective(step.phase)) continue;
    absl::StrAppend(&text, std::string(Name(step.phase)), "\n");
    for (const Use& use : step.accumulates) {
      const Tensor& tensor = program.tensor(use.tensor);
      absl::StrAppend(&text, tensor.name, " ", tensor.spec.ToString());
      for (const Slice& slice : tensor.shards)
        absl::StrAppend(&text, " ", slice.first, "+", slice.count);
      absl::StrAppend(&text, "\n");
    }
  }
  return StableHash(text);
}

namespace {

absl::Status CheckMeans(const Program& program) {
  if (program.options.share.ranks == 1 && !program.options.accumulation.is_on())
    return absl::OkStatus();
  const auto is_metrics = [&](const Use& use) { return IsMetrics(program, use.tensor); };
  const auto computes_metrics = [&](const Step& step) {
    return IsOfLayer(step.phase) &&
           (std::any_of(step.writes.begin(), step.writes.end(), is_metrics) ||
            std::any_of(step.accumulates.begin(), step.accumulates.end(), is_metrics));
  };
  for (const Step& step : program.steps) {
    if (!computes_metrics(step) || step.depends_on_part) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        program.StepName(step),
        ": the loss takes the mean over its own images, not over those of all ranks or of all "
        "batches whose gradients are summed (StepSpec::depends_on_part)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSums(const Program& program) {
  RETURN_IF_ERROR(CheckMeans(program));
  if (program.options.share.ranks == 1) return absl::OkStatus();
  for (const Step& step : program.steps) {
    if (!IsCollective(step.phase) || step.phase == Phase::kAllGather) continue;
    for (const Use& use : step.accumulates) {
      const Tensor& tensor = program.tensor(use.tensor);
      const DType dtype = tensor.spec.dtype;
      if (dtype == DType::kFp32 || dtype == DType::kTf32) continue;  // which is stored as fp32
      return absl::InvalidArgumentError(absl::StrCat(tensor.name, ": ranks sum fp32, not ",
                                                     std::string(Name(tensor.spec.dtype))));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const ProgramOptions& options, const GraphOptions& net) {
  RETURN_IF_ERROR(CheckShard(options, net));
  const RankShare& share = options.share;
  if (share.ranks == 1) return absl::OkStatus();
  const bool is_rank = share.ranks > 1 && share.rank >= 0 && share.rank < share.ranks;
  const bool is_part =
      share.first_image >= 0 && net.batch >= 0 && share.first_image <= share.all_images - net.batch;
  if (is_rank && is_part) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "rank %d of %d cannot train images %d to %d of a batch of %d", share.rank, share.ranks,
      share.first_image, share.first_image + net.batch - 1, share.all_images));
}

}  // namespace neap
