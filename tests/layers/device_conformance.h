// The conformance test of every device: call CheckDeviceConformance(device) inside a doctest case.
//
// The races that it provokes (a copy that runs early or late) may show as wrong bytes, and always
// show under ThreadSanitizer. Device memory is accessed only by Device::Copy, so the test also
// works for a GPU.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "neap/core/base/layout.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/device/host_memory.h"

namespace neap {

class DeviceConformance {
 public:
  explicit DeviceConformance(Device& device) : device_(device) {}

  void Describes();
  void Aligns();
  void RefusesAbsurdSizes();
  void CopiesNothing();
  void CopiesRandomPieces(uint32_t seed);
  void CopiesToThePeerAndBack(uint32_t seed);
  // The values begin `offset` elements after an aligned address.
  void ConvertsFromNchw(const TensorSpec& spec, int64_t offset);
  void KeepsOrderWithinAStream();
  void ShowsCopiesAfterAWait();
  void AwaitsOneStreamOnly();
  void ReusesBytesOnceTheyAreOffloaded();
  void OverlapsBothDirections();
  void TakesManyEvents();
  void WaitsAcrossStreamsInChains();
  void TimesStreams();
  void RefusesTimesThatAreNotThere();

 private:
  bool has_peer() const { return device_.description().peer_bandwidth > 0; }
  std::vector<MemoryKind> Kinds() const {
    std::vector<MemoryKind> kinds = {MemoryKind::kDevice, MemoryKind::kPinnedHost};
    if (has_peer()) kinds.push_back(MemoryKind::kPeer);
    return kinds;
  }
  Buffer New(MemoryKind kind, int64_t size_bytes) {
    absl::StatusOr<Buffer> buffer = device_.Allocate(kind, size_bytes);
    REQUIRE(buffer.ok());
    return *std::move(buffer);
  }
  void Copy(Stream stream, void* destination, const void* source, int64_t size_bytes) {
    REQUIRE(device_.Copy(stream, destination, source, size_bytes).ok());
  }
  Event Record(Stream stream) {
    absl::StatusOr<Event> event = device_.Record(stream);
    REQUIRE(event.ok());
    return *std::move(event);
  }
  Event RecordTime(Stream stream) {
    absl::StatusOr<Event> event = device_.RecordTime(stream);
    REQUIRE(event.ok());
    return *std::move(event);
  }
  double ElapsedUs(const Event& earlier, const Event& later) {
    const absl::StatusOr<double> elapsed_us = device_.ElapsedUs(earlier, later);
    REQUIRE_MESSAGE(elapsed_us.ok(), elapsed_us.status().ToString());
    return *elapsed_us;
  }
  void Wait(Stream stream, const Event& event) { REQUIRE(device_.Wait(stream, event).ok()); }
  // Work enqueued on `then` from now on runs after the work enqueued on `first` so far.
  void Join(Stream first, Stream then) { Wait(then, Record(first)); }
  void Synchronize() { REQUIRE(device_.Synchronize().ok()); }
  static void Fill(const Buffer& buffer, int value) {
    std::memset(buffer.data(), value, static_cast<size_t>(buffer.size_bytes()));
  }
  static bool IsAll(const Buffer& buffer, int value) {
    const std::byte* const bytes = buffer.data();
    const auto count = static_cast<size_t>(buffer.size_bytes());
    return count == 0 ||
           (bytes[0] == std::byte(value) && std::memcmp(bytes, bytes + 1, count - 1) == 0);
  }

  Device& device_;
};

inline void DeviceConformance::Describes() {
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

inline void DeviceConformance::Aligns() {
  for (MemoryKind kind : Kinds()) {
    for (int64_t size : {int64_t{1}, int64_t{4095}, int64_t{4097}, kMiB}) {
      const Buffer buffer = New(kind, size);
      CHECK(buffer.size_bytes() == size);
      CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 4096 == 0);
    }
  }
}

inline void DeviceConformance::RefusesAbsurdSizes() {
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

inline void DeviceConformance::CopiesNothing() {
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
inline void DeviceConformance::CopiesRandomPieces(uint32_t seed) {
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
inline void DeviceConformance::CopiesToThePeerAndBack(uint32_t seed) {
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
inline void DeviceConformance::ConvertsFromNchw(const TensorSpec& spec, int64_t offset) {
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

// Copies to the same bytes: on every stream, the last enqueued copy wins.
inline void DeviceConformance::KeepsOrderWithinAStream() {
  constexpr int64_t kSize = 256 * kKiB;
  for (Stream stream : {Stream::kCompute, Stream::kD2h, Stream::kH2d}) {
    const Buffer device = New(MemoryKind::kDevice, kSize);
    const Buffer ones = New(MemoryKind::kPinnedHost, kSize);
    const Buffer twos = New(MemoryKind::kPinnedHost, kSize);
    const Buffer back = New(MemoryKind::kPinnedHost, kSize);
    Fill(ones, 1);
    Fill(twos, 2);
    for (int i = 0; i < 50; ++i) {
      Copy(stream, device.data(), ones.data(), kSize);
      Copy(stream, device.data(), twos.data(), kSize);
      Copy(stream, back.data(), device.data(), kSize);
    }
    Synchronize();
    CHECK(IsAll(back, 2));
  }
}

inline void DeviceConformance::ShowsCopiesAfterAWait() {
  constexpr int64_t kSize = 8 * kMiB;
  const Buffer device = New(MemoryKind::kDevice, kSize);
  const Buffer scratch = New(MemoryKind::kDevice, kSize);
  const Buffer host = New(MemoryKind::kPinnedHost, kSize);
  const Buffer back = New(MemoryKind::kPinnedHost, kSize);
  for (int value = 1; value <= 8; ++value) {
    Fill(host, value);
    Copy(Stream::kH2d, device.data(), host.data(), kSize);
    Join(Stream::kH2d, Stream::kCompute);
    Copy(Stream::kCompute, scratch.data(), device.data(), kSize);
    Join(Stream::kCompute, Stream::kD2h);
    Copy(Stream::kD2h, back.data(), scratch.data(), kSize);
    Synchronize();
    CHECK(IsAll(back, value));
  }
}

// Reads the end of a long copy after a wait; without the wait, the end would have old bytes.
inline void DeviceConformance::AwaitsOneStreamOnly() {
  constexpr int64_t kSize = 16 * kMiB;
  constexpr int64_t kEnd = 64 * kKiB;
  const Buffer device = New(MemoryKind::kDevice, kSize);
  const Buffer host = New(MemoryKind::kPinnedHost, kSize);
  const Buffer back = New(MemoryKind::kPinnedHost, kEnd);
  for (int value = 1; value <= 8; ++value) {
    Fill(host, value);
    Copy(Stream::kH2d, device.data(), host.data(), kSize);
    Join(Stream::kH2d, Stream::kD2h);
    Copy(Stream::kD2h, back.data(), device.data() + kSize - kEnd, kEnd);
    REQUIRE(device_.Await(Record(Stream::kD2h)).ok());
    CHECK(IsAll(back, value));
  }
}

// Overwrites bytes after a wait on their offload; without the wait, the host would get some of the
// new bytes.
inline void DeviceConformance::ReusesBytesOnceTheyAreOffloaded() {
  constexpr int64_t kSize = 16 * kMiB;
  constexpr int64_t kEnd = 64 * kKiB;
  const Buffer device = New(MemoryKind::kDevice, kSize);
  const Buffer host = New(MemoryKind::kPinnedHost, kSize);
  const Buffer back = New(MemoryKind::kPinnedHost, kSize);
  const Buffer fresh = New(MemoryKind::kPinnedHost, kEnd);
  Fill(fresh, 255);
  for (int value = 1; value <= 8; ++value) {
    Fill(host, value);
    Copy(Stream::kH2d, device.data(), host.data(), kSize);
    Join(Stream::kH2d, Stream::kD2h);
    Copy(Stream::kD2h, back.data(), device.data(), kSize);
    Join(Stream::kD2h, Stream::kH2d);
    Copy(Stream::kH2d, device.data() + kSize - kEnd, fresh.data(), kEnd);
    Synchronize();
    CHECK(IsAll(back, value));
  }
}

// Offloads one half and prefetches the other at once; neither disturbs the other.
inline void DeviceConformance::OverlapsBothDirections() {
  constexpr int64_t kHalf = 4 * kMiB;
  const Buffer arena = New(MemoryKind::kDevice, 2 * kHalf);
  const Buffer in = New(MemoryKind::kPinnedHost, kHalf);
  const Buffer out = New(MemoryKind::kPinnedHost, kHalf);
  Fill(in, 1);
  Copy(Stream::kH2d, arena.data(), in.data(), kHalf);
  Synchronize();
  for (int value = 2; value <= 10; ++value) {
    Fill(in, value);
    std::byte* old_half = arena.data() + (value % 2 == 0 ? 0 : kHalf);
    std::byte* new_half = arena.data() + (value % 2 == 0 ? kHalf : 0);
    Copy(Stream::kD2h, out.data(), old_half, kHalf);
    Copy(Stream::kH2d, new_half, in.data(), kHalf);
    Synchronize();
    CHECK(IsAll(out, value - 1));
  }
}

inline void DeviceConformance::TakesManyEvents() {
  std::vector<Event> events;
  for (int i = 0; i < 3000; ++i) events.push_back(Record(static_cast<Stream>(i % kStreamCount)));
  for (size_t i = 0; i < events.size(); ++i) {
    Wait(static_cast<Stream>((i + i / 3) % kStreamCount), events[i]);
    if (i % 7 == 0) Wait(Stream::kCompute, events[i]);  // again, after it has happened
  }
  events.clear();
  Synchronize();
}

// One block of bytes is copied round compute -> d2h -> h2d -> compute; a lost or early wait breaks
// the chain.
inline void DeviceConformance::WaitsAcrossStreamsInChains() {
  constexpr int kLinks = 300;
  constexpr int64_t kBlock = 4096;
  const Buffer device = New(MemoryKind::kDevice, (kLinks + 1) * kBlock);
  const Buffer host = New(MemoryKind::kPinnedHost, kBlock);
  const Buffer back = New(MemoryKind::kPinnedHost, kBlock);
  Fill(host, 77);
  Copy(Stream::kCompute, device.data(), host.data(), kBlock);
  for (int i = 0; i < kLinks; ++i) {
    const Stream before = static_cast<Stream>(i % kStreamCount);
    const Stream after = static_cast<Stream>((i + 1) % kStreamCount);
    Join(before, after);
    Copy(after, device.data() + (i + 1) * kBlock, device.data() + i * kBlock, kBlock);
  }
  const Stream last = static_cast<Stream>(kLinks % kStreamCount);
  Copy(last, back.data(), device.data() + kLinks * kBlock, kBlock);
  Synchronize();
  CHECK(IsAll(back, 77));
}

// A copy begins before it ends, and work after a wait does not begin before the awaited work has
// ended.
//
//   h2d   |copy     |
//   d2h             |copy     |      one wait between each and the next
//   compute                   |copy     |
inline void DeviceConformance::TimesStreams() {
  constexpr int64_t kSize = 16 * kMiB;
  constexpr double kResolutionUs = 1;
  const Buffer device = New(MemoryKind::kDevice, kSize);
  const Buffer host = New(MemoryKind::kPinnedHost, kSize);
  const Event origin = RecordTime(Stream::kCompute);
  std::vector<Event> marks;
  for (Stream stream : {Stream::kH2d, Stream::kD2h, Stream::kCompute}) {
    Wait(stream, marks.empty() ? origin : marks.back());  // timed events can be waited on too
    marks.push_back(RecordTime(stream));
    Copy(stream, device.data(), host.data(), kSize);
    marks.push_back(RecordTime(stream));
  }
  REQUIRE(device_.Await(marks.back()).ok());
  double sum_us = ElapsedUs(origin, marks.front());
  for (size_t i = 1; i < marks.size(); ++i) {
    const double elapsed_us = ElapsedUs(marks[i - 1], marks[i]);
    CHECK(elapsed_us >= (i % 2 == 1 ? kResolutionUs : -kResolutionUs));  // even: from copy to copy
    CHECK(ElapsedUs(marks[i], marks[i - 1]) == doctest::Approx(-elapsed_us));
    sum_us += elapsed_us;
  }
  CHECK(ElapsedUs(origin, origin) == 0);
  CHECK(ElapsedUs(origin, marks.back()) == doctest::Approx(sum_us));
  Synchronize();
}

inline void DeviceConformance::RefusesTimesThatAreNotThere() {
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  const Event timed = RecordTime(Stream::kCompute);
  const Event untimed = Record(Stream::kCompute);
  Synchronize();
  CHECK(device_.ElapsedUs(timed, untimed).status().code() == kInvalid);
  CHECK(device_.ElapsedUs(untimed, timed).status().code() == kInvalid);
  CHECK(device_.ElapsedUs(nullptr, timed).status().code() == kInvalid);
  CHECK(ElapsedUs(timed, timed) == 0);  // the errors did not make the device fail
  Synchronize();
}

inline void CheckDeviceConformance(Device& device) {
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
