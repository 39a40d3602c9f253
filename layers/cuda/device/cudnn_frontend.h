// cudnn-frontend, which calls cuDNN through the library that has been loaded, and what neap's
// graphs of it have in common. Private to the few sources that build such graphs: it takes half a
// minute to compile.
#pragma once

#include "neap/layers/cuda/device/cudnn_library.h"

// What cudnn-frontend calls of cuDNN, in the library that has been loaded. Its own functions have
// another namespace: a program may be linked with others of the same names.
#define cudnn_frontend neap_cudnn_frontend
#define cudnnCreate ::neap::LoadedCudnn().create
#define cudnnDestroy ::neap::LoadedCudnn().destroy
#define cudnnGetErrorString ::neap::LoadedCudnn().get_error_string
#define cudnnGetLastErrorString ::neap::LoadedCudnn().get_last_error_string
#define cudnnGetStream ::neap::LoadedCudnn().get_stream
#define cudnnGetVersion ::neap::LoadedCudnn().get_version
#define cudnnSetStream ::neap::LoadedCudnn().set_stream
#define cudnnBackendCreateDescriptor ::neap::LoadedCudnn().backend_create_descriptor
#define cudnnBackendDestroyDescriptor ::neap::LoadedCudnn().backend_destroy_descriptor
#define cudnnBackendExecute ::neap::LoadedCudnn().backend_execute
#define cudnnBackendFinalize ::neap::LoadedCudnn().backend_finalize
#define cudnnBackendGetAttribute ::neap::LoadedCudnn().backend_get_attribute
#define cudnnBackendSetAttribute ::neap::LoadedCudnn().backend_set_attribute
#define NV_CUDNN_DISABLE_EXCEPTION
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/tensor.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap::cudnn {

namespace fe = cudnn_frontend;

template <typename Problem>
absl::Status FrontendStatus(fe::error_t error, std::string_view call, const Problem& problem) {
  if (error.is_good()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(std::string(call), ": ", error.get_message(), " (", problem.ToString(), ")"));
}

inline absl::Status CudnnStatus(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(std::string(call), ": ", cudnnGetErrorString(status)));
}

inline fe::DataType_t DataTypeOf(DType dtype) {
  if (dtype == DType::kFp16) return fe::DataType_t::HALF;
  return dtype == DType::kBf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

// cuDNN's handle, which stays alive as long as any plan made with it.
using Handle = std::shared_ptr<std::remove_pointer_t<cudnnHandle_t>>;

inline absl::StatusOr<Handle> NewHandle() {
  cudnnHandle_t raw = nullptr;
  RETURN_IF_ERROR(CudnnStatus(cudnnCreate(&raw), "cudnnCreate"));
  return Handle(raw, [](cudnnHandle_t h) { cudnnDestroy(h); });
}

// Handles with which threads list engines at the same time, one each. A device that is not present
// needs none.
class ListingHandles {
 public:
  explicit ListingHandles(std::optional<int> device) : device_(device) {}

  absl::StatusOr<Handle> Take() {
    if (!device_.has_value()) return Handle();
    RETURN_IF_ERROR(CudaStatus(cudaSetDevice(*device_), "cudaSetDevice"));
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return NewHandle();
    Handle handle = std::move(free_.back());
    free_.pop_back();
    return handle;
  }
  void Return(Handle handle) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(handle));
  }

 private:
  const std::optional<int> device_;
  std::mutex mutex_;
  std::vector<Handle> free_;  // guarded by mutex_
};

}  // namespace neap::cudnn
