// For builds without MPI.
#include "neap/layers/collectives/mpi_ranks.h"

namespace neap {

bool BuiltWithMpi() { return false; }

absl::StatusOr<std::unique_ptr<MpiRanks>> MpiRanks::Start(std::chrono::milliseconds /*timeout*/) {
  return absl::UnimplementedError(
      "this neap was built without MPI; build it where MPI is installed (Debian package "
      "libopenmpi-dev)");
}

}  // namespace neap
