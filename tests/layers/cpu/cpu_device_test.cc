#include "neap/layers/cpu/cpu_device.h"

#include <doctest/doctest.h>

#include <cstring>

#include "neap/core/base/parallel.h"
#include "neap/layers/cpu/copy_queue.h"
#include "neap/layers/cpu/cpu_description.h"
#include "tests/layers/device_conformance.h"
#include "tests/no_threads.h"
#include "tests/small_net.h"

namespace neap {
namespace {

TEST_CASE("the cpu device does what every device must") {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  CheckDeviceConformance(*device);
}

TEST_CASE("opening the device fails if its threads cannot be started") {
  const testing::NoThreads none;
  const absl::Status status = CpuDevice::Open().status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK(status.message().find("cannot start its copy threads") != absl::string_view::npos);
}

TEST_CASE("an error in a stream is returned by every later call") {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  const absl::Status error = device->Copy(Stream::kH2d, nullptr, nullptr, 16);
  CHECK(error.code() == absl::StatusCode::kInternal);
  CHECK(error.message() == "cpu device: Copy(h2d, null, null, 16 bytes)");
  std::byte bytes[16] = {};
  CHECK(device->Copy(Stream::kD2h, bytes, bytes, 16) == error);
  CHECK(device->Record(Stream::kCompute).status() == error);
  CHECK(device->RecordTime(Stream::kCompute).status() == error);
  CHECK(device->ElapsedUs(nullptr, nullptr).status() == error);
  CHECK(device->Wait(Stream::kCompute, nullptr) == error);
  CHECK(device->Allocate(MemoryKind::kDevice, 16).status() == error);
  CHECK(device->UsedBytes().status() == error);
  CHECK(device->Synchronize() == error);
}

TEST_CASE("waiting on a null event is an error that names the stream") {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  CHECK(device->Wait(Stream::kD2h, nullptr).message() == "cpu device: Wait(d2h, no event)");
}

TEST_CASE("a refused allocation names the bytes asked for") {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  const absl::Status refused = device->Allocate(MemoryKind::kDevice, int64_t{1} << 60).status();
  CHECK(refused.message().find("1152921504606846976 bytes") != absl::string_view::npos);
}

TEST_CASE("a queued copy really runs concurrently with its caller") {
  CopyQueue queue;
  auto gate = std::make_shared<CpuEvent>();
  std::vector<char> from(kMiB, 'x');
  std::vector<char> to(kMiB, '-');
  queue.Wait(gate);
  queue.Copy(to.data(), from.data(), kMiB);
  const std::shared_ptr<CpuEvent> done = queue.Record();
  CHECK(to.back() == '-');  // the queue waits for the gate, and this thread does not
  gate->Signal();
  done->Wait();
  CHECK(to == from);
}

TEST_CASE("an event has no time before it happens, and then one after its gate's") {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  auto gate = std::make_shared<CpuEvent>(Timing::kTimed);
  REQUIRE(device->Wait(Stream::kD2h, gate).ok());
  const Event before = device->RecordTime(Stream::kCompute).value();
  const Event behind = device->RecordTime(Stream::kD2h).value();
  CHECK(device->ElapsedUs(before, behind).status().code() == absl::StatusCode::kFailedPrecondition);
  gate->Signal();
  REQUIRE(device->Await(behind).ok());
  CHECK(device->ElapsedUs(before, gate).value() >= 0);
  CHECK(device->ElapsedUs(gate, behind).value() >= 0);
}

TEST_CASE("destroying the device finishes queued copies, and buffers outlive it") {
  std::unique_ptr<CpuDevice> device = OpenCpu();
  absl::StatusOr<Buffer> from = device->Allocate(MemoryKind::kDevice, 16 * kMiB);
  absl::StatusOr<Buffer> to = device->Allocate(MemoryKind::kPinnedHost, 16 * kMiB);
  REQUIRE(from.ok());
  REQUIRE(to.ok());
  std::memset(from->data(), 5, static_cast<size_t>(from->size_bytes()));
  REQUIRE(device->Copy(Stream::kD2h, to->data(), from->data(), 16 * kMiB).ok());
  absl::StatusOr<Event> copied = device->Record(Stream::kD2h);
  REQUIRE(copied.ok());
  REQUIRE(device->Wait(Stream::kH2d, *copied).ok());
  device.reset();
  CHECK(std::memcmp(to->data(), from->data(), 16 * kMiB) == 0);
}

TEST_CASE("used bytes grow by the pages that an allocation touches") {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  const absl::StatusOr<int64_t> before = device->UsedBytes();
  absl::StatusOr<Buffer> arena = device->Allocate(MemoryKind::kDevice, 64 * kMiB);
  REQUIRE(arena.ok());
  std::memset(arena->data(), 1, static_cast<size_t>(arena->size_bytes()));
  const absl::StatusOr<int64_t> after = device->UsedBytes();
  REQUIRE(before.ok());
  REQUIRE(after.ok());
  CHECK(*after - *before > 32 * kMiB);
}

TEST_CASE("the model name is taken from /proc/cpuinfo") {
  CHECK(CpuModelName("processor\t: 0\nmodel name\t: Fast CPU: v2\nflags: a\n") == "Fast CPU: v2");
  CHECK(CpuModelName("processor\t: 0\nBogoMIPS\t: 48.00\n") == "CPU");
  CHECK(CpuModelName("") == "CPU");
}

TEST_CASE("the rate of arithmetic is that of the processors and of the width of their arithmetic") {
  const double flops = DescribeCpu().fp32_flops;
  CHECK(FlopsPerCycle() >= 16);
  CHECK(flops == doctest::Approx(static_cast<double>(AvailableCores()) * 2.5e9 * FlopsPerCycle()));
}

TEST_CASE("work of other kinds runs on a stream in its turn, and its error ends the device") {
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(device
                ->Call(Stream::kCollective,
                       [&order, i] {
                         order.push_back(i);
                         return absl::OkStatus();
                       })
                .ok());
  }
  const absl::StatusOr<Event> done = device->Record(Stream::kCollective);
  REQUIRE(done.ok());
  REQUIRE(device->Await(*done).ok());
  CHECK(order == std::vector<int>{0, 1, 2});

  const absl::Status lost = absl::UnavailableError("rank 1 has ended");
  REQUIRE(device->Call(Stream::kCollective, [lost] { return lost; }).ok());
  // It may have failed already, or fails before this runs.
  device
      ->Call(Stream::kCollective,
             [&order] {
               order.push_back(3);
               return absl::OkStatus();
             })
      .IgnoreError();
  CHECK(device->Synchronize() == lost);
  CHECK(order.size() == 3);
  CHECK(device->Record(Stream::kCompute).status() == lost);
}

}  // namespace
}  // namespace neap
