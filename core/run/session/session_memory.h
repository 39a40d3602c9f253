// The memory of a session, and the executables that run in it: one for each graph that it trains,
// and one for evaluation. Private to the session.
//
// All are bound to one arena, with the persistent tensors in the same places, so changing from one
// to another costs a look-up:
//
//   SessionMemory memory(device, /*communicator=*/nullptr, /*records=*/true);
//   RETURN_IF_ERROR(memory.Replace({.training = {whole}, .inference = evaluation}));
//   const Executable* known = memory.Find(graph);
//   RETURN_IF_ERROR(known != nullptr ? memory.Resume(*known) : memory.Add(executable));
//   return memory.training().executor->Run();
//
// When the arena has to be replaced, for another budget or a graph that needs more, the persistent
// tensors must survive, although the device may not have room for two arenas, and may then refuse
// the new one.
//
// *Ownership*: borrows device and communicator. *Errors*: those of the device and of BindPlan(),
// such as ABORTED for an engine that cannot be built; INVALID_ARGUMENT from CheckSamePlaces().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/run/arena.h"
#include "neap/core/run/executable.h"
#include "neap/core/run/external.h"
#include "neap/core/run/session_results.h"

namespace neap {

struct Executables {
  std::vector<std::shared_ptr<Executable>> training;  // that of the next step first
  std::shared_ptr<Executable> inference = nullptr;    // null if the session does not evaluate
};

class SessionMemory {
 public:
  // Executables for training, besides those of the family: kernels and recordings take some
  // megabytes of the host's and the device's memory for each.
  static constexpr size_t kMaxTraining = 64;

  // `communicator` is null for a session that trains alone.
  SessionMemory(Device& device, Communicator* communicator, bool records)
      : device_(device), communicator_(communicator), records_(records), arena_(device) {}

  // To be called before anything is bound.
  void SetExternal(ExternalAddresses external) { external_ = std::move(external); }

  Executable& training() { return *executables_.training.front(); }
  const Executable& training() const { return *executables_.training.front(); }
  Executable& inference() { return *executables_.inference; }
  const Executable& inference() const { return *executables_.inference; }
  // Those that are planned for every budget: that of the next step, the rest of the family, and
  // that for evaluation.
  Executables Kept() const;
  MemoryUse Use() const;
  ExecutableStats stats() const { return stats_; }

  // Binds these executables, and no others, to an arena of just the bytes that they need. Waits
  // until the device is idle. After an error, the ones before are bound again. Only if the device
  // refuses even the memory that it granted before, or a copy back, Check() fails until another
  // call succeeds.
  absl::Status Replace(Executables next);

  // Binds another executable for training, which becomes that of the next step, and takes the place
  // of one for the same graph. Steps may be in flight. If the arena is too small for it, that is
  // replaced, and if the device has no memory for its kernels, it is asked again, without all
  // executables but the family; if there are too many, the one that was not used for the longest
  // time is dropped. Errors: as Replace().
  absl::Status Add(std::shared_ptr<Executable> next);

  // That of the graph and stage; null if there is none. The graph of an executable itself
  // (Executable::graph) is found without a comparison of layers.
  const Executable* Find(const Graph& graph, int64_t stage = 0) const;
  // Returns to one of the executables. Steps may be in flight.
  absl::Status Resume(const Executable& executable);

  // FAILED_PRECONDITION if the executables cannot run.
  absl::Status Check() const;

 private:
  // In an arena of at least so many bytes.
  absl::Status ReserveAndBind(const Executables& executables, ArenaBytes bytes);
  absl::Status Replace(Executables next, const ArenaBytes& bytes);
  absl::Status Bind(Executable& executable);

  Device& device_;
  Communicator* const communicator_;
  const bool records_;
  ExternalAddresses external_;
  Arena arena_;
  Executables executables_;
  ExecutableStats stats_;
};

}  // namespace neap
