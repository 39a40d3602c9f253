// What mpirun says in the environment, for builds with and without MPI.
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "neap/layers/collectives/mpi_ranks.h"

namespace neap {

std::optional<int> RanksOfMpi() {
  const char* const text = std::getenv("OMPI_COMM_WORLD_SIZE");
  int ranks = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &ranks)) return std::nullopt;
  return ranks;
}

}  // namespace neap
