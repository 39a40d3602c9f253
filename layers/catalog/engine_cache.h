// The engines that a backend has listed, by signature, so that each signature is listed once.
//
// To list is to ask a library (oneDNN: 0.1 ms for a convolution, cuDNN: milliseconds), and the same
// is asked again and again: by deep networks, which repeat a few layers hundreds of times, by each
// plan that a session makes, and by its executors.
//
//   EngineCache cache;
//   ASSIGN_OR_RETURN(std::vector<Engine> engines, cache.Get(signature, ListEngines));
#pragma once

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"

namespace neap {

// *Threads*: one at a time.
class EngineCache {
 public:
  using List = absl::FunctionRef<absl::StatusOr<std::vector<Engine>>(const StepSignature&)>;

  // What `list` returned for an equal signature; calls it the first time. Errors are not kept.
  absl::StatusOr<std::vector<Engine>> Get(const StepSignature& signature, List list);

  // Takes off its list an engine that cannot be built. Returns what Backend::MakeKernel then has
  // to: ABORTED, or `reason` itself where that would leave nothing to plan with. Of engines that
  // add to gradients none need be left: others write them.
  absl::Status Withdraw(const StepSignature& signature, std::string_view engine,
                        const absl::Status& reason);

 private:
  absl::flat_hash_map<StepSignature, std::vector<Engine>> engines_;
};

}  // namespace neap
