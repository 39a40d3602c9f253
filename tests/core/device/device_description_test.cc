#include "neap/core/device/device_description.h"

#include <doctest/doctest.h>

#include "neap/core/base/units.h"

namespace neap {
namespace {

TEST_CASE("an H200 can be planned for without one") {
  const absl::StatusOr<DeviceDescription> h200 = DescribedDevice("h200");
  REQUIRE(h200.ok());
  CHECK(h200->name == "NVIDIA H200");
  CHECK(h200->kind == "cuda");
  CHECK(h200->memory_bytes == 150109880320);
  CHECK(h200->host_memory_bytes == 256 * kGiB);
  CHECK(h200->copy_bandwidth == 55.5e9);
}

TEST_CASE("every described device is found by its name and has all its rates") {
  for (const std::string& name : DescribedDeviceNames()) {
    CAPTURE(name);
    const absl::StatusOr<DeviceDescription> device = DescribedDevice(name);
    REQUIRE(device.ok());
    CHECK(device->memory_bytes > 0);
    CHECK(device->host_memory_bytes > 0);
    CHECK(device->fp32_flops > 0);
    CHECK(device->tf32_flops >= device->fp32_flops);
    CHECK(device->half_flops >= device->fp32_flops);
    CHECK(device->has_own_memory == (device->kind == "cuda"));
    CHECK(device->memory_bandwidth > 0);
    CHECK(device->copy_bandwidth > 0);
  }
}

TEST_CASE("an unknown device is refused with the list of known ones") {
  const absl::Status status = DescribedDevice("h201").status();
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(status.message() == "no description of a device 'h201'; there are: h200");
}

TEST_CASE("stream names parse back") {
  for (Stream stream : {Stream::kCompute, Stream::kD2h, Stream::kH2d}) {
    const absl::StatusOr<Stream> parsed = ParseStream(Name(stream));
    REQUIRE(parsed.ok());
    CHECK(*parsed == stream);
  }
  // No action of a plan runs there.
  CHECK(ParseStream(Name(Stream::kInput)).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ParseStream("d2d").status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace neap
