// The conformance of a device's memory, copies and conversions.
#include "tests/layers/device_conformance.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>

#include "neap/core/base/layout.h"
#include "neap/core/base/units.h"
#include "neap/core/device/host_memory.h"

namespace neap {

void DeviceConformance::Describes() {
  const DeviceDescription& description = device_.description();
  CHECK(!description.name.empty());
  CHECK(!description.kind.empty());
  CHECK(description.memory_bytes > 0);
  CHECK(description.host_memory_bytes == HostMemoryBytes());
  CHECK(description.fp32_flops > 0);
  CHECK(description.tf32_flops >= description.fp32_flops);
  CHECK(description.half_flops >= description.fp32_flops);
  CHECK(description.has_own_memory == (description.kind == "cuda"));
  CHECK(description.memory_bandwidth > 0);
  CHECK(description.copy_bandwidth > 0);
  absl::StatusOr<int64_t> used = device_.UsedBytes();
  REQUIRE(used.ok());
  CHECK(*used > 0);
  CHECK(description.page_bytes > 0);
  const absl::StatusOr<std::optional<int64_t>> libraries = device_.LibraryBytes();
  REQUIRE(libraries.ok());
  CHECK(libraries->value_or(1) > 0);
  CHECK(libraries->value_or(1) <= *used);
}

void DeviceConformance::Aligns() {
  for (MemoryKind kind : Kinds()) {
    for (int64_t size : {int64_t{1}, int64_t{4095}, int64_t{4097}, kMiB}) {
      const Buffer buffer = New(kind, size);
      CHECK(buffer.size_bytes() == size);
      CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 4096 == 0);
    }
  }
}

void DeviceConformance::RefusesAbsurdSizes() {
  for (MemoryKind kind : Kinds()) {
    for (int64_t size : {int64_t{1} << 50, std::numeric_limits<int64_t>::max()}) {
      CHECK(device_.Allocate(kind, size).status().code() == absl::StatusCode::kResourceExhausted);
    }
    CHECK(!device_.Allocate(kind, -1).ok());
  }
  // A refused allocation does not make the device fail.
  CHECK(device_.Allocate(MemoryKind::kDevice, kMiB).ok());
  Synchronize();
}

void DeviceConformance::CopiesNothing() {
  const Buffer device = New(MemoryKind::kDevice, 4096);
  const Buffer host = New(MemoryKind::kPinnedHost, 4096);
  for (Stream stream : {Stream::kCompute, Stream::kD2h, Stream::kH2d}) {
    Copy(stream, device.data(), host.data(), 0);
    Copy(stream, nullptr, nullptr, 0);
  }
  Synchronize();
}

// Copies random pieces to the device, to a second place there, and back; the host's copies must
// agree.
void DeviceConformance::CopiesRandomPieces(uint32_t seed) {
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr int64_t kSize = 2 * kMiB;
  const Buffer from = New(MemoryKind::kPinnedHost, kSize);
  const Buffer to = New(MemoryKind::kPinnedHost, kSize);
  const Buffer first = New(MemoryKind::kDevice, kSize);
  const Buffer second = New(MemoryKind::kDevice, kSize);
  for (int64_t i = 0; i < kSize; ++i) from.data()[i] = static_cast<std::byte>(random());
  Fill(to, 0);
  for (int64_t begin = 0; begin < kSize;) {
    const int64_t piece = std::min<int64_t>(kSize - begin, 1 + random() % 70000);
    Copy(Stream::kH2d, first.data() + begin, from.data() + begin, piece);
    Join(Stream::kH2d, Stream::kCompute);
    Copy(Stream::kCompute, second.data() + begin, first.data() + begin, piece);
    Join(Stream::kCompute, Stream::kD2h);
    Copy(Stream::kD2h, to.data() + begin, second.data() + begin, piece);
    begin += piece;
  }
  Synchronize();
  CHECK(std::memcmp(from.data(), to.data(), kSize) == 0);
}

// Copies pieces from the host to the device, to its peer, back to another place on the device and
// to the host, in both directions at once. Without a peer, peer memory cannot be allocated.
void DeviceConformance::CopiesToThePeerAndBack(uint32_t seed) {
  if (!has_peer()) {
    CHECK(absl::IsFailedPrecondition(device_.Allocate(MemoryKind::kPeer, kMiB).status()));
    return;
  }
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr int64_t kSize = 2 * kMiB;
  const Buffer from = New(MemoryKind::kPinnedHost, kSize);
  const Buffer to = New(MemoryKind::kPinnedHost, kSize);
  const Buffer device = New(MemoryKind::kDevice, 2 * kSize);
  const Buffer peer = New(MemoryKind::kPeer, kSize);
  for (int64_t i = 0; i < kSize; ++i) from.data()[i] = static_cast<std::byte>(random());
  Fill(to, 0);
  Copy(Stream::kCompute, device.data(), from.data(), kSize);
  Join(Stream::kCompute, Stream::kD2h);
  for (int64_t begin = 0; begin < kSize;) {
    const int64_t piece = std::min<int64_t>(kSize - begin, 1 + random() % 70000);
    Copy(Stream::kD2h, peer.data() + begin, device.data() + begin, piece);
    Join(Stream::kD2h, Stream::kH2d);
    Copy(Stream::kH2d, device.data() + kSize + begin, peer.data() + begin, piece);
    begin += piece;
  }
  Join(Stream::kH2d, Stream::kCompute);
  Copy(Stream::kCompute, to.data(), device.data() + kSize, kSize);
  Synchronize();
  CHECK(std::memcmp(from.data(), to.data(), kSize) == 0);
}

// Gives the bytes that the host makes of the same values.
void DeviceConformance::ConvertsFromNchw(const TensorSpec& spec, int64_t offset) {
  CAPTURE(spec.shape.ToString());
  CAPTURE(static_cast<int>(spec.dtype));
  CAPTURE(static_cast<int>(spec.layout));
  const int64_t values = spec.elements();
  const Buffer host = New(MemoryKind::kPinnedHost, values * 4);
  const Buffer given = New(MemoryKind::kDevice, (offset + values) * 4);
  const Buffer stored = New(MemoryKind::kDevice, spec.size_bytes());
  const Buffer back = New(MemoryKind::kPinnedHost, spec.size_bytes());
  auto* const nchw = reinterpret_cast<float*>(host.data());
  std::mt19937 random(1);
  for (int64_t i = 0; i < values; ++i)
    nchw[i] = static_cast<float>(random() % 2000001) * 1e-5F - 10;
  std::vector<std::byte> expected(static_cast<size_t>(spec.size_bytes()));
  FromNchw({nchw, static_cast<size_t>(values)}, spec, expected.data());
  Copy(Stream::kCompute, given.data() + offset * 4, host.data(), values * 4);
  const auto* const on_device = reinterpret_cast<const float*>(given.data()) + offset;
  REQUIRE(device_.CopyFromNchw(Stream::kCompute, on_device, spec, stored.data()).ok());
  Copy(Stream::kCompute, back.data(), stored.data(), spec.size_bytes());
  Synchronize();
  CHECK(std::memcmp(back.data(), expected.data(), expected.size()) == 0);
}

void CheckDeviceConformance(Device& device) {
  DeviceConformance conformance(device);
  conformance.Describes();
  conformance.Aligns();
  conformance.RefusesAbsurdSizes();
  conformance.CopiesNothing();
  conformance.CopiesRandomPieces(/*seed=*/20260101);
  conformance.CopiesToThePeerAndBack(/*seed=*/20260102);
  for (const Shape& shape : {Shape{2, 3, 9, 7}, Shape{3, 1, 8, 8}, Shape{2, 10, 5, 5}}) {
    for (const DType dtype : {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16}) {
      for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        const TensorSpec spec = {.shape = shape, .dtype = dtype, .layout = layout};
        for (const int64_t offset : {0, 1}) conformance.ConvertsFromNchw(spec, offset);
      }
    }
  }
  conformance.KeepsOrderWithinAStream();
  conformance.ShowsCopiesAfterAWait();
  conformance.AwaitsOneStreamOnly();
  conformance.ReusesBytesOnceTheyAreOffloaded();
  conformance.OverlapsBothDirections();
  conformance.TakesManyEvents();
  conformance.WaitsAcrossStreamsInChains();
  conformance.TimesStreams();
  conformance.RefusesTimesThatAreNotThere();
}

}  // namespace neap
