// The functions of layers/cuda/cuda_device.h and cuda_backend.h, in a build without CUDA.
#include "neap/layers/cuda/cuda_device.h"

#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/cuda/described_catalog.h"

namespace neap {
namespace {

absl::Status WithoutCuda() { return absl::UnimplementedError("built without CUDA"); }

}  // namespace

class CudaDevice::Impl {
 public:
  DeviceDescription description;
  std::unique_ptr<Backend> backend;
};

CudaDevice::CudaDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaDevice::~CudaDevice() = default;

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int, CudaDeviceOptions) {
  return WithoutCuda();
}
const DeviceDescription& CudaDevice::description() const { return impl_->description; }
absl::StatusOr<Buffer> CudaDevice::Allocate(MemoryKind, int64_t) { return WithoutCuda(); }
absl::StatusOr<int64_t> CudaDevice::UsedBytes() { return WithoutCuda(); }
absl::StatusOr<std::optional<int64_t>> CudaDevice::LibraryBytes() { return WithoutCuda(); }
Backend& CudaDevice::backend() { return *impl_->backend; }
absl::Status CudaDevice::Copy(Stream, void*, const void*, int64_t) { return WithoutCuda(); }
absl::Status CudaDevice::CopyFromNchw(Stream, const float*, const TensorSpec&, std::byte*) {
  return WithoutCuda();
}
absl::StatusOr<Event> CudaDevice::Record(Stream) { return WithoutCuda(); }
absl::StatusOr<Event> CudaDevice::RecordTime(Stream) { return WithoutCuda(); }
absl::StatusOr<double> CudaDevice::ElapsedUs(const Event&, const Event&) { return WithoutCuda(); }
absl::Status CudaDevice::Wait(Stream, const Event&) { return WithoutCuda(); }
absl::StatusOr<std::unique_ptr<Recording>> CudaDevice::Capture(absl::FunctionRef<absl::Status()>) {
  return WithoutCuda();
}
absl::Status CudaDevice::Replay(const Recording&) { return WithoutCuda(); }
absl::Status CudaDevice::Await(const Event&) { return WithoutCuda(); }
absl::Status CudaDevice::Synchronize() { return WithoutCuda(); }
absl::StatusOr<void*> CudaDevice::Native(Stream) { return WithoutCuda(); }
bool CudaDevice::HasHappened(const Event&) { return false; }
void CudaDevice::Fail(const absl::Status&) {}

absl::StatusOr<std::vector<DeviceDescription>> ListCudaDevices() {
  return std::vector<DeviceDescription>{};
}

absl::StatusOr<std::vector<int>> CudaPeersOf(int) { return std::vector<int>{}; }

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(void*, std::vector<CustomKernel>,
                                                         const EngineOptions&) {
  return WithoutCuda();
}
absl::Status LoadCudaLibraries() { return WithoutCuda(); }
absl::StatusOr<std::unique_ptr<EngineCatalog>> MakeCudnnCatalog(std::string_view,
                                                                std::vector<CustomKernel>,
                                                                const EngineOptions&) {
  return WithoutCuda();
}
absl::StatusOr<std::string> CudnnDeviceProperties(const DeviceDescription&) {
  return WithoutCuda();
}

}  // namespace neap
