#include <doctest/doctest.h>

#include <cstring>
#include <thread>

#include "neap/core/base/units.h"
#include "neap/layers/cuda/cuda_device.h"
#include "tests/gpu_test.h"
#include "tests/layers/device_conformance.h"
#include "tests/small_training.h"

namespace neap {
namespace {

using testing::OpenGpuOrSkip;

constexpr int64_t kDriverPage = 2 * kMiB;

int64_t LibraryBytes(CudaDevice& gpu) {
  const absl::StatusOr<std::optional<int64_t>> bytes = gpu.LibraryBytes();
  REQUIRE(bytes.ok());
  REQUIRE(bytes->has_value());
  return **bytes;
}

TEST_CASE("the CUDA device does what every device must") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  CheckDeviceConformance(*gpu);
}

TEST_CASE("the CUDA device is in the list, with its description") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const absl::StatusOr<std::vector<DeviceDescription>> all = ListCudaDevices();
  REQUIRE(all.ok());
  REQUIRE(!all->empty());
  CHECK(all->front().name == gpu->description().name);
  CHECK(all->front().memory_bytes == gpu->description().memory_bytes);
  MESSAGE(gpu->description().name, ": fp32 ", gpu->description().fp32_flops, " tf32 ",
          gpu->description().tf32_flops, " memory B/s ", gpu->description().memory_bandwidth,
          " copy B/s ", gpu->description().copy_bandwidth, ", libraries hold ",
          FormatBytes(LibraryBytes(*gpu)));
}

TEST_CASE(
    "used bytes are the libraries' and the allocated ones, before, during and after an "
    "allocation") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const int64_t libraries = LibraryBytes(*gpu);
  CHECK(libraries > 0);
  CHECK(*gpu->UsedBytes() == libraries);
  {
    const absl::StatusOr<Buffer> arena = gpu->Allocate(MemoryKind::kDevice, 1000 * kMiB);
    REQUIRE(arena.ok());
    const int64_t planned = libraries + arena->size_bytes();
    CHECK(*gpu->UsedBytes() >= planned);
    CHECK(*gpu->UsedBytes() < planned + kDriverPage);
    CHECK(LibraryBytes(*gpu) == libraries);
  }
  CHECK(*gpu->UsedBytes() == libraries);
}

TEST_CASE("an allocation larger than the GPU is refused with its bytes, and harms nothing") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const absl::Status refused = gpu->Allocate(MemoryKind::kDevice, int64_t{1} << 50).status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(std::string(refused.message()).find("1125899906842624 bytes") != std::string::npos);
  CHECK(gpu->Synchronize().ok());
  CHECK(gpu->Allocate(MemoryKind::kDevice, kMiB).ok());
}

TEST_CASE("opening a GPU that does not exist returns NOT_FOUND") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  CHECK(absl::IsNotFound(CudaDevice::Open(1000).status()));
  CHECK(absl::IsNotFound(CudaDevice::Open(-1).status()));
  CHECK(absl::IsNotFound(CudaDevice::Open(0, {.peer = 1000}).status()));
}

TEST_CASE("a GPU cannot be its own peer") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  CHECK(gpu->description().peer_bandwidth == 0);
  CHECK(absl::IsFailedPrecondition(CudaDevice::Open(0, {.peer = 0}).status()));
}

// GPU 0 with the first possible peer; null if there is none, with a message that says so.
std::unique_ptr<CudaDevice> OpenWithPeerOrSkip() {
  if (!OpenGpuOrSkip()) return nullptr;
  const absl::StatusOr<std::vector<int>> peers = CudaPeersOf(0);
  REQUIRE(peers.ok());
  if (peers->empty()) {
    testing::SkipCase("no peer: that needs a second GPU, which the first can reach");
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<CudaDevice>> gpu = CudaDevice::Open(0, {.peer = peers->front()});
  REQUIRE_MESSAGE(gpu.ok(), gpu.status().ToString());
  return *std::move(gpu);
}

TEST_CASE("a GPU with a peer does what every device must") {
  const std::unique_ptr<CudaDevice> gpu = OpenWithPeerOrSkip();
  if (!gpu) return;
  MESSAGE("peer copies: ", gpu->description().peer_bandwidth, " B/s");
  CHECK(gpu->description().peer_bandwidth > 0);
  CheckDeviceConformance(*gpu);
}

TEST_CASE("memory on the peer does not count as the GPU's own, and outlives the device") {
  std::unique_ptr<CudaDevice> gpu = OpenWithPeerOrSkip();
  if (!gpu) return;
  const int64_t used = *gpu->UsedBytes();
  absl::StatusOr<Buffer> lent = gpu->Allocate(MemoryKind::kPeer, 1000 * kMiB);
  REQUIRE(lent.ok());
  // The page tables for the peer's memory are in the GPU's own memory.
  CHECK(*gpu->UsedBytes() < used + 100 * kMiB);
  gpu.reset();
  *lent = Buffer();
}

TEST_CASE("copies on a peer train to the same bits as copies on the host") {
  const std::unique_ptr<CudaDevice> gpu = OpenWithPeerOrSkip();
  if (!gpu) return;
  Session host = MakeSession(*gpu, {.policy = "vdnn-all", .strict = true});
  Session peer = MakeSession(
      *gpu,
      {.host_budget_bytes = 0, .peer_budget_bytes = kGiB, .policy = "vdnn-all", .strict = true});
  CHECK(host.plan().host_pool_bytes > 0);
  CHECK(peer.plan().peer_pool_bytes > 0);
  Train(host, 5);
  Train(peer, 5);
  CheckSameState(host, peer);
}

TEST_CASE("buffers and events outlive the device, and another thread may use it") {
  std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  absl::StatusOr<Buffer> device = gpu->Allocate(MemoryKind::kDevice, kMiB);
  absl::StatusOr<Buffer> host = gpu->Allocate(MemoryKind::kPinnedHost, kMiB);
  REQUIRE(device.ok());
  REQUIRE(host.ok());
  std::memset(host->data(), 7, kMiB);
  Event event;
  std::thread other([&] {
    CHECK(gpu->Copy(Stream::kH2d, device->data(), host->data(), kMiB).ok());
    event = gpu->Record(Stream::kH2d).value();
    CHECK(gpu->Await(event).ok());
  });
  other.join();
  std::memset(host->data(), 0, kMiB);
  CHECK(gpu->Copy(Stream::kD2h, host->data(), device->data(), kMiB).ok());
  gpu.reset();
  CHECK(host->data()[kMiB - 1] == std::byte{7});
}

}  // namespace
}  // namespace neap
