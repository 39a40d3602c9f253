// Ranks in one process, on CPU devices: what MPI does between processes, for tests, for
// ParallelSession (core/run/parallel_session.h), and where there is no MPI.
//
// Each rank has a thread of its own, which calls its communicator.
//
//   LocalRanks group(2);
//   std::thread other([&] { Train(*devices[1], *group.Join(1, *devices[1])); });
//   Train(*devices[0], *group.Join(0, *devices[0]));
//
// Sums are taken in the order of the ranks, (r0 + r1) + r2 ..., with the same bits as by MPI
// (layers/collectives/mpi_ranks.h). *Threads*: any number. *Ownership*: communicators share the
// group's state, and borrow their devices.
#pragma once

#include <chrono>
#include <memory>

#include "neap/core/device/communicator.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap {

class LocalRanks {
 public:
  // A rank that has waited for the others so long fails, and so do they.
  explicit LocalRanks(int ranks, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  ~LocalRanks();

  // The communicator of a rank; each has one. Destroying it lets the others fail.
  std::unique_ptr<Communicator> Join(int rank, CpuDevice& device);

 private:
  struct Group;
  class Rank;
  std::shared_ptr<Group> group_;
};

}  // namespace neap
