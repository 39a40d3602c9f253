// The homes of a program's persistent tensors, from its options. Private to the program's builder,
// and to the planner, which decides on ProgramOptions::offload_params.
//
//   const HomeTable homes(program.options);
//   tensor.home = homes.Of(tensor);  // of each tensor that is added
//   program.tensors.push_back(tensor);
//   RETURN_IF_ERROR(CheckHomes(program));  // once the program is built
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "neap/core/base/home.h"
#include "neap/core/program/program.h"

namespace neap {

// Parameters and optimizer state that are large enough to be worth a transfer (moDNN 5.1.1).
inline constexpr int64_t kMinOffloadedParamBytes = 64 * 1024;

// The choices of ProgramOptions, by name.
class HomeTable {
 public:
  // Of options that outlive it, with the same homes.
  explicit HomeTable(const ProgramOptions& options);

  // Whether ProgramOptions::offload_params decides about the tensor.
  bool IsOffloadable(const Tensor& tensor) const;
  // That of ProgramOptions::homes, else the host for an offloadable tensor of a program with
  // `offload_params`, else the arena.
  Home Of(const Tensor& tensor) const;

 private:
  const ProgramOptions& options_;
  absl::flat_hash_map<std::string_view, Home> named_;
};

// The same steps with another choice of ProgramOptions::offload_params.
Program WithOffloadedParams(Program program, bool offload_params);

// The bytes of the persistent tensors on the host, each in whole blocks.
int64_t HostBytes(const Program& program);

// Errors: INVALID_ARGUMENT, naming the tensor, for one that ProgramOptions::homes names twice or
// that the program lacks, or for a state on the host if the iteration pauses, because that may be
// given up while the host lacks what forward has changed; for an external loss scale, with which
// the session itself counts; and for homes outside the arena if the optimizer is sharded.
absl::Status CheckHomes(const Program& program);

}  // namespace neap
