// Plans of which only the transfers are of interest: what tests of the external pools share.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"

namespace neap {

// Tensors of so many blocks, less a few bytes.
inline Plan PlanOf(const std::vector<int64_t>& blocks) {
  Plan plan = {.batch = 1};
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t bytes = blocks[i] * kBlockBytes - 4;
    plan.tensors.push_back({TensorId(i), absl::StrCat("t", i), Role::kActivation, Shape{bytes / 4},
                            DType::kFp32, bytes});
  }
  return plan;
}
inline void Offload(Plan& plan, size_t tensor, Pool pool = Pool::kHost) {
  plan.actions.emplace_back(OffloadAction{TensorId(tensor), pool});
}
inline void Prefetch(Plan& plan, size_t tensor) {
  plan.actions.emplace_back(PrefetchAction{TensorId(tensor)});
}

// Forty transfers of a few tensors, to the host and back.
inline Plan RandomMoves(std::mt19937& random) {
  std::vector<int64_t> blocks(2 + random() % 9);
  for (int64_t& size : blocks) size = 1 + static_cast<int64_t>(random() % 9);
  Plan plan = PlanOf(blocks);
  std::vector<bool> copied(blocks.size(), false);
  for (int i = 0; i < 40; ++i) {
    const size_t tensor = random() % blocks.size();
    if (copied[tensor] && random() % 3 != 0) {
      Prefetch(plan, tensor);
    } else {
      Offload(plan, tensor);
      copied[tensor] = true;
    }
  }
  return plan;
}

}  // namespace neap
