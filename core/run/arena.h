// The memory in which a session trains: a block of the device, and pinned memory of the host for
// the persistent tensors that are on the host between iterations. Private to the session.
//
// A change of the budget needs a block of another size, and the device may not have room for both.
// The bytes up to the end of the last persistent tensor are therefore copied to the host meanwhile:
//
//   RETURN_IF_ERROR(arena.Evacuate(persistent_end));
//   RETURN_IF_ERROR(arena.Reserve(arena_bytes, host_resident_bytes));  // may be retried
//   RETURN_IF_ERROR(arena.Return());
//
// *Errors*: those of the device. A failed Reserve() leaves no block, but keeps evacuated bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "neap/core/device/device.h"

namespace neap {

class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}

  // Frees the old block first. Afterwards there are at least `host_resident_bytes` of pinned
  // memory; if there already were, that memory and its contents are kept.
  absl::Status Reserve(int64_t bytes, int64_t host_resident_bytes);

  // Copies the lowest `bytes` to the host, where they stay until Return(). Does nothing if they are
  // already there.
  absl::Status Evacuate(int64_t bytes);
  absl::Status Return();
  bool is_evacuated() const { return evacuated_.has_value(); }

  std::byte* data() const { return block_.data(); }
  int64_t size_bytes() const { return block_.size_bytes(); }
  std::byte* host_residents() const { return host_residents_.data(); }

 private:
  Device& device_;
  Buffer block_;
  Buffer host_residents_;
  std::optional<Buffer> evacuated_;
};

}  // namespace neap
