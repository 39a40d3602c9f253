// Ranks in one process, with the functions of MPI between processes, for ParallelSession
// (core/run/parallel_session.h), for commands that train on several devices, and for tests.
//
// Each rank has a thread of its own, which calls its communicator. Ranks on CPUs are summed here;
// those on GPUs only exchange texts here (layers/collectives/nccl_ranks.h).
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
#include "neap/layers/collectives/membership.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap {

class LocalRanks {
 public:
  // A rank that has waited for the others so long fails, and so do they.
  explicit LocalRanks(int ranks, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  ~LocalRanks();

  // The communicator of a rank; each has one. Destroying it lets the others fail.
  std::unique_ptr<Communicator> Join(int rank, CpuDevice& device);
  std::unique_ptr<Membership> MembershipOf(int rank);

 private:
  struct Group;
  class Member;
  class Texts;
  class Rank;
  std::shared_ptr<Group> group_;
};

}  // namespace neap
