#include "neap/core/device/device.h"

#include "absl/strings/str_format.h"

namespace neap {

std::string_view Name(Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return "compute";
    case Stream::kD2h:
      return "d2h";
    case Stream::kH2d:
      return "h2d";
    case Stream::kCollective:
      return "collective";
    case Stream::kInput:
      return "input";
  }
  return "unknown";
}

absl::StatusOr<Stream> ParseStream(std::string_view text) {
  for (Stream stream : kPlanStreams) {
    if (text == Name(stream)) return stream;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("unknown stream '%s'; there are compute, d2h, h2d and collective", text));
}

double DeviceDescription::FlopsOf(DType dtype) const {
  if (dtype == DType::kBf16) return bf16_flops.value_or(half_flops);
  if (Is16Bit(dtype)) return half_flops;
  return dtype == DType::kTf32 ? tf32_flops : fp32_flops;
}

absl::StatusOr<std::unique_ptr<Recording>> Device::Capture(
    absl::FunctionRef<absl::Status()> /*enqueue*/) {
  return absl::UnimplementedError("this device does not record work");
}

absl::Status Device::Replay(const Recording& /*recording*/) {
  return absl::UnimplementedError("this device does not record work");
}

}  // namespace neap
