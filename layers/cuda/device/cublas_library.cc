#include "neap/layers/cuda/device/cublas_library.h"

#include "neap/core/base/shared_library.h"
#include "neap/core/base/status_macros.h"

namespace neap::cuda {
namespace {

absl::StatusOr<CublasLibrary> Load() {
  // Of the version whose header was compiled.
  ASSIGN_OR_RETURN(
      SharedLibrary library,
      SharedLibrary::Open(
          absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR),
          absl::StrCat("cuBLASLt ", CUBLAS_VER_MAJOR,
                       " was not found, which multiplies matrices on GPUs (part of the CUDA ",
                       "toolkit, or nvidia-cublas of PyPI, with its folder in LD_LIBRARY_PATH)")));
  CublasLibrary loaded = {};
  library.Find("cublasLtCreate", loaded.create);
  library.Find("cublasLtDestroy", loaded.destroy);
  library.Find("cublasLtGetStatusString", loaded.get_status_string);
  library.Find("cublasLtGetVersion", loaded.get_version);
  library.Find("cublasLtMatmul", loaded.matmul);
  library.Find("cublasLtMatmulAlgoGetHeuristic", loaded.matmul_algo_get_heuristic);
  library.Find("cublasLtMatmulDescCreate", loaded.matmul_desc_create);
  library.Find("cublasLtMatmulDescDestroy", loaded.matmul_desc_destroy);
  library.Find("cublasLtMatmulDescSetAttribute", loaded.matmul_desc_set_attribute);
  library.Find("cublasLtMatmulPreferenceCreate", loaded.matmul_preference_create);
  library.Find("cublasLtMatmulPreferenceDestroy", loaded.matmul_preference_destroy);
  library.Find("cublasLtMatmulPreferenceSetAttribute", loaded.matmul_preference_set_attribute);
  library.Find("cublasLtMatrixLayoutCreate", loaded.matrix_layout_create);
  library.Find("cublasLtMatrixLayoutDestroy", loaded.matrix_layout_destroy);
  library.Find("cublasLtMatrixLayoutSetAttribute", loaded.matrix_layout_set_attribute);
  RETURN_IF_ERROR(library.FoundAll());
  return loaded;
}

}  // namespace

absl::StatusOr<const CublasLibrary*> LoadCublas() {
  static const absl::StatusOr<CublasLibrary> library = Load();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace neap::cuda
