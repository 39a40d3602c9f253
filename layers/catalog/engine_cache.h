// A cache of the engines that a backend lists for a signature.
//
// Listing queries a library (oneDNN: 0.1 ms for a convolution, cuDNN: milliseconds), and the same
// queries recur: deep networks repeat a few layers hundreds of times, and a session lists the
// engines again for each plan and each executor.
//
//   EngineCache cache;
//   ASSIGN_OR_RETURN(std::vector<Engine> engines, cache.Get(signature, ListEngines));
#pragma once

#include <mutex>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"

namespace neap {

// *Threads*: any number at a time.
class EngineCache {
 public:
  using List = absl::FunctionRef<absl::StatusOr<std::vector<Engine>>(const StepSignature&)>;

  // The result of `list` for this signature, computed on the first call. Errors are not cached.
  // Threads that ask for the same signature at the same time may each call `list`; all get the
  // result of the one that finished first.
  absl::StatusOr<std::vector<Engine>> Get(const StepSignature& signature, List list);

  // Removes an engine that cannot be built from its list. Returns the status that
  // Backend::MakeKernel has to return: ABORTED, or `reason` itself if no engine would be left to
  // plan with. A list of engines that add to gradients may become empty, because gradients can also
  // be written and added by a separate kernel.
  absl::Status Withdraw(const StepSignature& signature, std::string_view engine,
                        const absl::Status& reason);

 private:
  std::mutex mutex_;  // not held while engines are listed
  absl::flat_hash_map<StepSignature, std::vector<Engine>> engines_;
};

}  // namespace neap
