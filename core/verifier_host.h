// Bytes of host memory that copies of tensors take. Private to the verifier.
//
// A copy lives from its offload until the last prefetch that reads it; one that none reads, until
// the next offload of the tensor replaces it or the plan ends. Those of tensors that are on the
// host between iterations live always.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan.h"
#include "neap/core/verifier_site.h"

namespace neap::verifier {

class HostCopies {
 public:
  HostCopies(const Plan& plan, const Site& site);

  absl::Status Offload(TensorId tensor);
  void Prefetch(TensorId tensor);
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  const Plan& plan_;
  const Site& site_;
  std::vector<bool>
      is_last_read_;            // by action: a prefetch, and no other reads the same copy after it
  std::vector<bool> is_alive_;  // by TensorId
  int64_t bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace neap::verifier
