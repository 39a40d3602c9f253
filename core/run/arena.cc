#include "neap/core/run/arena.h"

#include <utility>

#include "neap/core/base/status_macros.h"

namespace neap {

absl::Status Arena::Reserve(int64_t bytes, int64_t host_resident_bytes) {
  block_ = Buffer();
  if (host_residents_.size_bytes() < host_resident_bytes) {
    ASSIGN_OR_RETURN(host_residents_,
                     device_.Allocate(MemoryKind::kPinnedHost, host_resident_bytes));
  }
  ASSIGN_OR_RETURN(block_, device_.Allocate(MemoryKind::kDevice, bytes));
  return absl::OkStatus();
}

absl::Status Arena::Evacuate(int64_t bytes) {
  if (evacuated_.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Buffer snapshot, device_.Allocate(MemoryKind::kPinnedHost, bytes));
  RETURN_IF_ERROR(device_.Copy(Stream::kCompute, snapshot.data(), data(), bytes));
  RETURN_IF_ERROR(device_.Synchronize());
  evacuated_ = std::move(snapshot);
  return absl::OkStatus();
}

absl::Status Arena::Return() {
  RETURN_IF_ERROR(
      device_.Copy(Stream::kCompute, data(), evacuated_->data(), evacuated_->size_bytes()));
  RETURN_IF_ERROR(device_.Synchronize());
  evacuated_.reset();
  return absl::OkStatus();
}

}  // namespace neap
