// The functions of cuBLASLt, loaded when a GPU is first opened, or a description of one.
//
// Programs that are built with CUDA thus start, and train on the CPU, where cuBLAS is not
// installed. The library is looked for like one that the program is linked with; a build tree's
// programs also look where CMake has found it (third_party/cuda.cmake).
//
//   ASSIGN_OR_RETURN(const CublasLibrary* cublas, LoadCublas());
//   RETURN_IF_ERROR(cublas->Checked("cublasLtCreate", cublas->create(&handle)));
#pragma once

#include <cublasLt.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace neap::cuda {

struct CublasLibrary {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) get_status_string;
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) matmul_algo_get_heuristic;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute;
  decltype(&cublasLtMatmulPreferenceCreate) matmul_preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) matmul_preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) matmul_preference_set_attribute;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) matrix_layout_set_attribute;

  // Errors: INTERNAL with the call.
  absl::Status Checked(std::string_view call, cublasStatus_t status) const {
    if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(std::string(call), ": ", get_status_string(status)));
  }
};

// *Threads*: any. Errors: NOT_FOUND if cuBLASLt is not installed, or lacks one of these functions.
absl::StatusOr<const CublasLibrary*> LoadCublas();

}  // namespace neap::cuda
