// Reading a residency in tests: which stays a tensor has, and what they add up to.
#pragma once

#include <string>

#include "neap/memory/transfer/residency.h"

namespace neap::testing {

// A convolutional chain whose every activation takes four blocks: conv1 relu1 ... convN reluN fc.
Program ConvolutionChain(int convolutions, Accounting accounting = Accounting::kExact);

// "[0,2) offloaded after 0  [9,11) fetched": the stays of the tensor, in order. A value that was
// given is "offloaded at the start".
std::string StaysOf(const Program& program, const Residency& residency, std::string_view tensor);

// What a residency promises whatever its rules: operands are in the arena, a fetched tensor was
// offloaded with its latest value, stays of a life lie apart, and the usage is the sum of the
// stays.
void CheckResidency(const Program& program, const Liveness& liveness,
                    const std::vector<int64_t>& workspaces, const Residency& residency);

}  // namespace neap::testing
