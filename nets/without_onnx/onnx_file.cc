// For builds without Protocol Buffers.
#include "neap/nets/onnx/onnx_file.h"

namespace neap::nets {
namespace {

absl::Status WithoutOnnx() {
  return absl::UnimplementedError(
      "this neap was built without ONNX; build it where Protocol Buffers are installed (Debian "
      "packages libprotobuf-dev and protobuf-compiler)");
}

}  // namespace

bool BuiltWithOnnx() { return false; }

absl::StatusOr<OnnxModel> ReadOnnx(const std::string& /*path*/, const OnnxOptions& /*options*/) {
  return WithoutOnnx();
}

absl::Status WriteOnnx(const std::string& /*path*/, const Graph& /*graph*/,
                       const NamedValues& /*weights*/) {
  return WithoutOnnx();
}

}  // namespace neap::nets
