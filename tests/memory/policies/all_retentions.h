// All retentions of a small program's tensors: the fastest plan of an exhaustive search, with which
// the plans of policy `auto` are compared.
//
// Each forward result that backward wants is kept, moved to the host, rebuilt once and kept until
// used, or rebuilt anew for each backward step. What only reruns want is kept, moved or rebuilt
// with it, and the batch is kept or moved. What takes one block is kept. Each combination gives an
// order of runs and a residency. It is placed and timed exactly where a bound on its bytes and one
// on its time leave it a chance:
//
//   choices of n tensors    orders of runs        combinations          candidates
//   4^n                 --> the different ones --> x what is moved  --> placed and timed if
//                                                                       least bytes <= capacity,
//                                                                       least time < best so far
//
// What a combination moves, it moves between forward and backward. Policies may also move tensors
// at other times, and gradients; so a plan of theirs may be faster than all combinations.
//
//   const AllRetentions all(program, device, catalog);
//   const std::optional<Plan> faster = all.FasterThan(ms, budget_bytes);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/search/candidate.h"
#include "neap/recompute/segments.h"

namespace neap::testing {

class AllRetentions {
 public:
  // The forward steps whose results have a choice.
  static size_t CountChoices(const Program& program);

  // *Ownership*: keeps a reference to the program.
  AllRetentions(const Program& program, const DeviceDescription& device, EngineCatalog& catalog);

  // The plan of the fastest combination in a budget, if it takes less than `ms`.
  std::optional<Plan> FasterThan(double ms, int64_t budget_bytes) const;
  // The smallest arena of all combinations.
  int64_t SmallestArena() const;

 private:
  // Combinations that differ in what is moved only.
  struct Order {
    Liveness liveness;
    std::vector<int64_t> workspaces;  // by position: the smallest
    std::vector<double> run_seconds;  // by position
    std::vector<double> begin_us;     // by position, and that of the end
    std::vector<int64_t> unmoved;     // by position: the bytes if nothing is moved
    std::vector<size_t> movable;      // lives that are in use in forward and in backward
    int turn = 0;                     // the position at which backward begins
  };
  struct Combination {
    size_t order = 0;
    uint32_t moved = 0;  // a bit for each life in Order::movable
    double least_us = 0;
    int64_t least_bytes = 0;
  };

  void AddOrders(const std::vector<StepId>& choices);
  void AddOrder(ComputeSequence runs);
  void AddCombinations(size_t order);
  int64_t LeastBytes(const Order& order, uint32_t moved) const;
  double LeastUs(const Order& order, uint32_t moved) const;
  Candidate Place(const Combination& combination, int64_t limit_bytes) const;
  Plan Write(Candidate candidate, int64_t budget_bytes) const;

  const Program& program_;
  const DeviceDescription device_;
  EngineTable engines_;  // with the reruns of all forward steps
  int64_t persistent_bytes_;
  std::vector<Order> orders_;
  std::vector<Combination> combinations_;  // in ascending order of `least_us`
};

// What becomes of the tensors of more than one block that are moved or rebuilt, in a line.
std::string DescribeRetentions(const Plan& plan);

}  // namespace neap::testing
