// The version of each tensor in device memory, and in its copy in the host's pool or in the peer's.
// Private to the verifier.
//
// A tensor's version is the number of writes to it by the program, run step by step; a given value
// is version 0. The first run of a step writes the next versions; a recomputation writes the same
// versions as the first run, and must therefore read the same versions as the first run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

class Values {
 public:
  Values(const Plan& plan, const Site& site);

  void Give(TensorId tensor) { tensors_[tensor.index()].device = 0; }
  void Lose(TensorId tensor) { tensors_[tensor.index()].device = std::nullopt; }

  // Whether the tensor's value in device memory is the current one.
  absl::Status CheckCurrent(TensorId tensor) const;
  // Whether RerunReads(step)[index] holds what the step's first run read.
  absl::Status CheckRerunRead(const PlanStep& step, size_t index) const;
  void Run(const PlanStep& step);
  void Rerun(const PlanStep& step);

  // Whether the tensor's copy holds the current version.
  absl::Status CheckCopy(TensorId tensor) const;
  absl::Status Offload(TensorId tensor);
  absl::Status Prefetch(TensorId tensor);

 private:
  using Version = int32_t;
  struct TensorVersions {
    Version current = 0;  // of the program
    std::optional<Version> device, copy;
  };
  struct FirstRun {
    std::vector<Version> read;     // by position in RerunReads(step)
    std::vector<Version> written;  // by position in step.writes
  };

  absl::Status CheckVersion(TensorId tensor, Version wanted) const;

  const Site& site_;
  std::vector<TensorVersions> tensors_;  // by TensorId
  std::vector<FirstRun> first_runs_;     // by StepId; forward steps only
};

// The tensors that a recomputation of the step reads.
const std::vector<TensorId>& RerunReads(const PlanStep& step);
// Whether a recomputation of the step writes `tensor`, one of its writes. It does not write again
// what it reads.
bool RerunWrites(const PlanStep& step, TensorId tensor);

}  // namespace neap::verifier
