// The environment variables of mpirun and torchrun, for all builds.
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "neap/layers/collectives/mpi_ranks.h"
#include "neap/layers/collectives/torchrun_ranks.h"

namespace neap {
namespace {

std::optional<int> NumberIn(const char* variable) {
  const char* const text = std::getenv(variable);
  int number = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

}  // namespace

std::optional<int> RanksOfMpi() { return NumberIn("OMPI_COMM_WORLD_SIZE"); }

std::optional<int> RanksOfTorchrun() {
  // Other programs use WORLD_SIZE, too.
  if (!NumberIn("RANK").has_value() || !NumberIn("LOCAL_RANK").has_value()) return std::nullopt;
  return NumberIn("WORLD_SIZE");
}

}  // namespace neap
