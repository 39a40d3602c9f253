// The functions of cuDNN, loaded when a GPU is first opened, or a description of one: as
// layers/cuda/device/cublas_library.h, for libcudnn.so.9.
//
// They are those that cudnn-frontend calls, whose calls go through this table
// (layers/cuda/device/cudnn_frontend.h). It belongs to the process, because the frontend's
// functions cannot be given one.
//
//   RETURN_IF_ERROR(LoadCudnn());
//   const size_t version = LoadedCudnn().get_version();
#pragma once

#include <cudnn.h>

#include "absl/status/status.h"

namespace neap {

struct CudnnLibrary {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnGetErrorString) get_error_string;
  decltype(&cudnnGetLastErrorString) get_last_error_string;
  decltype(&cudnnGetStream) get_stream;
  decltype(&cudnnGetVersion) get_version;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) backend_create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) backend_destroy_descriptor;
  decltype(&cudnnBackendExecute) backend_execute;
  decltype(&cudnnBackendFinalize) backend_finalize;
  decltype(&cudnnBackendGetAttribute) backend_get_attribute;
  decltype(&cudnnBackendSetAttribute) backend_set_attribute;
};

// *Threads*: any. Errors: NOT_FOUND if cuDNN is not installed, lacks one of these functions, or is
// older than 9.8.
absl::Status LoadCudnn();
// After LoadCudnn() has succeeded.
const CudnnLibrary& LoadedCudnn();

}  // namespace neap
