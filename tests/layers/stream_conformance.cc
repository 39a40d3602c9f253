// The conformance of a device's streams: the order of their work, waits, events and times.
#include "neap/core/base/units.h"
#include "tests/layers/device_conformance.h"

namespace neap {

// Copies to the same bytes: on every stream, the last enqueued copy wins.
void DeviceConformance::KeepsOrderWithinAStream() {
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

void DeviceConformance::ShowsCopiesAfterAWait() {
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
void DeviceConformance::AwaitsOneStreamOnly() {
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
void DeviceConformance::ReusesBytesOnceTheyAreOffloaded() {
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
void DeviceConformance::OverlapsBothDirections() {
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

void DeviceConformance::TakesManyEvents() {
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
void DeviceConformance::WaitsAcrossStreamsInChains() {
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
void DeviceConformance::TimesStreams() {
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

void DeviceConformance::RefusesTimesThatAreNotThere() {
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

}  // namespace neap
