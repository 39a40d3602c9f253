#include "tests/adversarial_device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "neap/layers/cpu/cpu_device.h"
#include "tests/layers/device_conformance.h"
#include "tests/small_net.h"

namespace neap {
namespace {

TEST_CASE("the adversarial device does what every device must, in every order") {
  const auto cpu = OpenCpu();
  for (uint32_t order = 0; order <= AdversarialDevice::kFixedOrders; ++order) {
    CAPTURE(order);
    AdversarialDevice device(*cpu, order);
    CheckDeviceConformance(device);
    CHECK(device.Fault() == "");
  }
}

TEST_CASE("streams that do not wait overtake each other, in one way for each order of preference") {
  const auto cpu = OpenCpu();
  std::vector<std::string> orders;
  for (const uint32_t order : {0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17}) {
    AdversarialDevice device(*cpu, order);
    const Buffer place = *device.Allocate(MemoryKind::kDevice, 1);
    const Buffer log = *device.Allocate(MemoryKind::kPinnedHost, kStreamCount);
    // A stream that runs later reads what an earlier one has written.
    constexpr std::array<char, kStreamCount> kNames = {'c', 'd', 'h', 'i', 'r'};
    for (int stream = 0; stream < kStreamCount; ++stream) {
      const auto on = static_cast<Stream>(stream);
      REQUIRE(device.Copy(on, log.data() + stream, place.data(), 1).ok());
      REQUIRE(device.Copy(on, place.data(), &kNames[stream], 1).ok());
    }
    CHECK(log.data()[0] == std::byte{0xFF});  // nothing has run, and fresh memory is NaN
    REQUIRE(device.Synchronize().ok());
    orders.emplace_back(reinterpret_cast<const char*>(log.data()), kStreamCount);
    CHECK((device.overtakings() == 0) == (order == 0));
  }
  std::sort(orders.begin(), orders.end());
  CHECK(std::unique(orders.begin(), orders.end()) == orders.end());
}

TEST_CASE("a copy's destination holds NaN until the copy ends, which may be last of all") {
  const auto cpu = OpenCpu();
  constexpr uint32_t kEndsLate = 9;  // prefers d2h, then h2d
  AdversarialDevice device(*cpu, kEndsLate);
  const Buffer place = *device.Allocate(MemoryKind::kDevice, 1);
  const Buffer seen = *device.Allocate(MemoryKind::kPinnedHost, 1);
  const char old = 'o';
  const char fresh = 'f';
  REQUIRE(device.Copy(Stream::kCompute, place.data(), &old, 1).ok());
  REQUIRE(device.Synchronize().ok());
  REQUIRE(device.Copy(Stream::kH2d, place.data(), &fresh, 1).ok());
  REQUIRE(device.Copy(Stream::kD2h, seen.data(), place.data(), 1).ok());
  REQUIRE(device.Await(*device.Record(Stream::kD2h)).ok());
  CHECK(seen.data()[0] == std::byte{0xFF});
  REQUIRE(device.Synchronize().ok());
  CHECK(place.data()[0] == std::byte('f'));
}

TEST_CASE("a write or copy beyond a buffer is a fault") {
  const auto cpu = OpenCpu();
  AdversarialDevice device(*cpu, 0);
  const Buffer buffer = *device.Allocate(MemoryKind::kDevice, 64);
  const Buffer other = *device.Allocate(MemoryKind::kPinnedHost, 128);
  CHECK(device.Fault() == "");
  CHECK(!device.Copy(Stream::kH2d, buffer.data(), other.data(), 65).ok());
  CHECK(device.Fault() ==
        "adversarial device: a copy's destination of 65 bytes is not within one "
        "buffer");
  AdversarialDevice second(*cpu, 0);
  const Buffer guarded = *second.Allocate(MemoryKind::kDevice, 64);
  const std::byte before = guarded.data()[64];
  guarded.data()[64] = std::byte{0};
  CHECK(second.Fault() == "adversarial device: a guard after a buffer was written to");
  guarded.data()[64] = before;
}

}  // namespace
}  // namespace neap
