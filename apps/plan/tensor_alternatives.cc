#include "apps/plan/tensor_alternatives.h"

#include <cmath>

#include "neap/recompute/segments.h"

namespace neap::apps {
namespace {

double CopySeconds(int64_t bytes, double bytes_per_second, double latency_seconds) {
  const double seconds = bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0;
  return latency_seconds + seconds;
}

double MoveSeconds(int64_t bytes, const TimelineCosts& costs) {
  return CopySeconds(bytes, costs.d2h_bytes_per_second, costs.transfer_latency_seconds) +
         CopySeconds(bytes, costs.h2d_bytes_per_second, costs.transfer_latency_seconds);
}

// By TensorId: whether it is the batch's, or a forward step writes it.
std::vector<bool> BeforeBackward(const Program& program) {
  std::vector<bool> before(program.tensors.size(), false);
  for (const Tensor& tensor : program.tensors) before[tensor.id.index()] = IsBatch(tensor.role);
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward) continue;
    for (const Use& use : step.writes)
      before[use.tensor.index()] = !IsPersistent(program.tensor(use.tensor).role);
  }
  return before;
}

// By TensorId: the time of the rerun that writes it, with what the first run loses.
std::vector<std::optional<double>> RebuildSeconds(const Program& program,
                                                  const RebuildPrices& prices) {
  std::vector<std::optional<double>> rebuild(program.tensors.size());
  const Segments segments = NothingDropped(program);
  for (const Step& step : program.steps) {
    const double seconds =
        prices.rerun_seconds[step.id.index()] + prices.first_run_seconds[step.id.index()];
    if (!segments.of_step[step.id.index()].has_value() || std::isinf(seconds)) continue;
    for (const Use& use : WritesOf(step, /*rerun=*/true)) rebuild[use.tensor.index()] = seconds;
  }
  return rebuild;
}

}  // namespace

std::vector<TensorAlternatives> FindAlternatives(const Program& program, const TimelineCosts& costs,
                                                 const RebuildPrices& prices, bool may_move) {
  const std::vector<bool> before = BeforeBackward(program);
  const std::vector<bool> in_backward = NothingDropped(program).in_backward;
  const std::vector<std::optional<double>> rebuild = RebuildSeconds(program, prices);
  std::vector<TensorAlternatives> alternatives;
  for (const Tensor& tensor : program.tensors) {
    const size_t i = tensor.id.index();
    if (!before[i] || !in_backward[i]) continue;
    alternatives.push_back({.tensor = tensor.id});
    if (may_move) alternatives.back().move_us = 1e6 * MoveSeconds(tensor.spec.size_bytes(), costs);
    if (rebuild[i].has_value()) alternatives.back().rebuild_us = 1e6 * *rebuild[i];
  }
  return alternatives;
}

}  // namespace neap::apps
