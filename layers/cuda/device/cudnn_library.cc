#include "neap/layers/cuda/device/cudnn_library.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/shared_library.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/cuda/device/cublas_library.h"

namespace neap {
namespace {

// cuDNN loads NVRTC to list the engines of a convolution, and unloads it again. If it stays loaded,
// a list takes 9 ms instead of 14 (an AMD EPYC, cuDNN 9.19). Nothing else needs it.
void KeepNvrtcLoaded() {
  SharedLibrary::Open(absl::StrCat("libnvrtc.so.", CUDART_VERSION / 1000), "").IgnoreError();
}

absl::StatusOr<CudnnLibrary> Load() {
  ASSIGN_OR_RETURN(
      SharedLibrary library,
      SharedLibrary::Open(
          absl::StrCat("libcudnn.so.", CUDNN_MAJOR),
          absl::StrCat("cuDNN ", CUDNN_MAJOR,
                       " was not found, which computes convolutions on GPUs (from NVIDIA's site, ",
                       "or nvidia-cudnn-cu13 of PyPI, with its folder in LD_LIBRARY_PATH)")));
  CudnnLibrary loaded = {};
  library.Find("cudnnCreate", loaded.create);
  library.Find("cudnnDestroy", loaded.destroy);
  library.Find("cudnnGetErrorString", loaded.get_error_string);
  library.Find("cudnnGetLastErrorString", loaded.get_last_error_string);
  library.Find("cudnnGetStream", loaded.get_stream);
  library.Find("cudnnGetVersion", loaded.get_version);
  library.Find("cudnnSetStream", loaded.set_stream);
  library.Find("cudnnBackendCreateDescriptor", loaded.backend_create_descriptor);
  library.Find("cudnnBackendDestroyDescriptor", loaded.backend_destroy_descriptor);
  library.Find("cudnnBackendExecute", loaded.backend_execute);
  library.Find("cudnnBackendFinalize", loaded.backend_finalize);
  library.Find("cudnnBackendGetAttribute", loaded.backend_get_attribute);
  library.Find("cudnnBackendSetAttribute", loaded.backend_set_attribute);
  RETURN_IF_ERROR(library.FoundAll());
  constexpr size_t kOldestVersion = 90800;  // that can list the engines of an absent GPU
  if (const size_t version = loaded.get_version(); version < kOldestVersion) {
    return absl::NotFoundError(absl::StrCat("the cuDNN found is version ", version, "; ",
                                            kOldestVersion, " or newer is needed"));
  }
  KeepNvrtcLoaded();
  return loaded;
}

const absl::StatusOr<CudnnLibrary>& Library() {
  static const absl::StatusOr<CudnnLibrary> library = Load();
  return library;
}

}  // namespace

absl::Status LoadCudnn() { return Library().status(); }

const CudnnLibrary& LoadedCudnn() { return *Library(); }

absl::Status LoadCudaLibraries() {
  RETURN_IF_ERROR(LoadCudnn());
  return cuda::LoadCublas().status();
}

}  // namespace neap
