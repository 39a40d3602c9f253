// The memory in which a session trains: a block of the device, pools for copies during an
// iteration, and pinned memory of the host for the persistent tensors that are on the host between
// iterations. All plans of the session share it. Private to the session.
//
// A change of the budget needs a block of another size, and the device may not have room for both.
// The bytes up to the end of the last persistent tensor are therefore copied to the host meanwhile:
//
//   RETURN_IF_ERROR(arena.Evacuate(persistent_end));
//   RETURN_IF_ERROR(arena.Reserve(BytesFor(plan)));  // may be retried
//   RETURN_IF_ERROR(arena.Return());
//   return BindPlan(program, plan, device, arena.memory()).status();
//
// *Errors*: those of the device. A failed Reserve() leaves no block, but keeps evacuated bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/run/binder.h"

namespace neap {

// The bytes of each part of the memory.
struct ArenaBytes {
  int64_t device = 0;
  int64_t host_residents = 0;
  std::array<int64_t, kPoolCount> pools = {};  // by Pool

  // Whether there are as many bytes of each.
  bool Hold(const ArenaBytes& other) const;
};
ArenaBytes BytesFor(const Plan& plan);
// What is enough for both.
ArenaBytes Larger(const ArenaBytes& a, const ArenaBytes& b);

class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}

  // Frees the old block and the old pools first. Afterwards there are at least
  // `bytes.host_residents` of pinned memory; if there already were, that memory and its contents
  // are kept.
  absl::Status Reserve(const ArenaBytes& bytes);

  // Copies the lowest `bytes` of the block to the host, where they stay until Return(). Waits until
  // the device is idle. Does nothing if they are already there.
  absl::Status Evacuate(int64_t bytes);
  absl::Status Return();
  bool is_evacuated() const { return evacuated_.has_value(); }

  PlanMemory memory() const;
  ArenaBytes bytes() const;

 private:
  Device& device_;
  Buffer block_;
  Buffer host_residents_;
  std::array<Buffer, kPoolCount> pools_;  // by Pool
  std::optional<Buffer> evacuated_;
};

}  // namespace neap
