// The home of a persistent tensor: the memory that has its value between iterations.
//
//   const Homes homes = {{"fc.weight", Home::kHost}, {"conv1.weight", Home::kExternal}};
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace neap {

enum class Home : uint8_t {
  kArena,     // a place in the arena, of the budget's bytes, which it never leaves
  kHost,      // memory of the host; it is in the arena while steps use it (moDNN 5.1.1)
  kExternal,  // device memory of the caller's, where steps use it in place; not in the budget
};

std::string_view Name(Home home);  // "arena", "host", "external"
// Errors: INVALID_ARGUMENT.
absl::StatusOr<Home> ParseHome(std::string_view text);

// The choice of a home for one tensor, by its name in the program: "conv1.weight",
// "conv1.weight.momentum", "bn1.running_mean".
struct TensorHome {
  std::string tensor;
  Home home = Home::kArena;
  friend bool operator==(const TensorHome&, const TensorHome&) = default;
};
using Homes = std::vector<TensorHome>;

// The alignment of external memory in bytes, which kernels that read 16 bytes at a time need.
inline constexpr int64_t kExternalAlignment = 16;

}  // namespace neap
