#include "neap/core/run/arena.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr std::array<MemoryKind, kPoolCount> kPoolMemory = {MemoryKind::kPinnedHost,
                                                            MemoryKind::kPeer};

}  // namespace

bool ArenaBytes::Hold(const ArenaBytes& other) const {
  return device >= other.device && host_residents >= other.host_residents &&
         std::equal(pools.begin(), pools.end(), other.pools.begin(), std::greater_equal<>());
}

ArenaBytes BytesFor(const Plan& plan) {
  return {.device = plan.arena_bytes,
          .host_residents = plan.host_resident_bytes,
          .pools = {PoolBytes(plan, Pool::kHost), PoolBytes(plan, Pool::kPeer)}};
}

ArenaBytes Larger(const ArenaBytes& a, const ArenaBytes& b) {
  ArenaBytes larger = {.device = std::max(a.device, b.device),
                       .host_residents = std::max(a.host_residents, b.host_residents)};
  for (size_t pool = 0; pool < larger.pools.size(); ++pool)
    larger.pools[pool] = std::max(a.pools[pool], b.pools[pool]);
  return larger;
}

absl::Status Arena::Reserve(const ArenaBytes& bytes) {
  block_ = Buffer();
  pools_ = {};
  if (host_residents_.size_bytes() < bytes.host_residents) {
    ASSIGN_OR_RETURN(host_residents_,
                     device_.Allocate(MemoryKind::kPinnedHost, bytes.host_residents));
  }
  ASSIGN_OR_RETURN(Buffer block, device_.Allocate(MemoryKind::kDevice, bytes.device));
  std::array<Buffer, kPoolCount> pools;
  for (size_t pool = 0; pool < pools.size(); ++pool) {
    if (bytes.pools[pool] == 0) continue;
    ASSIGN_OR_RETURN(pools[pool], device_.Allocate(kPoolMemory[pool], bytes.pools[pool]));
  }
  block_ = std::move(block);
  pools_ = std::move(pools);
  return absl::OkStatus();
}

PlanMemory Arena::memory() const {
  PlanMemory memory = {.arena = block_.data(), .host_residents = host_residents_.data()};
  for (size_t pool = 0; pool < pools_.size(); ++pool) memory.pools[pool] = pools_[pool].data();
  return memory;
}

ArenaBytes Arena::bytes() const {
  ArenaBytes bytes = {.device = block_.size_bytes(),
                      .host_residents = host_residents_.size_bytes()};
  for (size_t pool = 0; pool < pools_.size(); ++pool) bytes.pools[pool] = pools_[pool].size_bytes();
  return bytes;
}

absl::Status Arena::Evacuate(int64_t bytes) {
  if (evacuated_.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Buffer snapshot, device_.Allocate(MemoryKind::kPinnedHost, bytes));
  RETURN_IF_ERROR(device_.Copy(Stream::kCompute, snapshot.data(), block_.data(), bytes));
  RETURN_IF_ERROR(device_.Synchronize());
  evacuated_ = std::move(snapshot);
  return absl::OkStatus();
}

absl::Status Arena::Return() {
  RETURN_IF_ERROR(
      device_.Copy(Stream::kCompute, block_.data(), evacuated_->data(), evacuated_->size_bytes()));
  RETURN_IF_ERROR(device_.Synchronize());
  evacuated_.reset();
  return absl::OkStatus();
}

}  // namespace neap
