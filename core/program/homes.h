// The homes of a program's persistent tensors, from its options. Private to the program's builder,
// and to the planner, which decides on ProgramOptions::offload_params.
//
//   program.tensors.push_back(tensor);
//   program.tensors.back().home = HomeOf(tensor, program.options);
//   RETURN_IF_ERROR(CheckHomes(program));  // once the program is built
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "neap/core/base/home.h"
#include "neap/core/program/program.h"

namespace neap {

// Parameters and optimizer state that are large enough to be worth a transfer (moDNN 5.1.1).
inline constexpr int64_t kMinOffloadedParamBytes = 64 * 1024;

// Whether ProgramOptions::offload_params decides about the tensor.
bool IsOffloadable(const Tensor& tensor, const ProgramOptions& options);

// That of ProgramOptions::homes, else the host for an offloadable tensor of a program with
// `offload_params`, else the arena.
Home HomeOf(const Tensor& tensor, const ProgramOptions& options);

// The same steps with another choice of ProgramOptions::offload_params.
Program WithOffloadedParams(Program program, bool offload_params);

// Whether a tensor of the program is on the host.
bool HasHostTensors(const Program& program);

// Errors: INVALID_ARGUMENT, naming the tensor, for one that ProgramOptions::homes names twice or
// that the program lacks, or for a state on the host if the iteration pauses, because that may be
// given up while the host lacks what forward has changed; and for homes outside the arena if the
// optimizer is sharded.
absl::Status CheckHomes(const Program& program);

}  // namespace neap
