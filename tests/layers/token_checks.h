// What layers of tokens make of ids that do not exist, and of parts of a batch: the same checks for
// every backend.
#pragma once

#include "neap/core/base/tensor.h"
#include "tests/layers/harness.h"

namespace neap::testing {

// An id outside the vocabulary is a vector of NaN and has no gradient, as the id of the padding has
// none.
void CheckIdsWithoutGradients(Backend& backend, const DeviceAccess& access);
// The loss of parts of a batch has the gradients of the whole, and adds to its metrics.
void CheckTokenLossInParts(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
