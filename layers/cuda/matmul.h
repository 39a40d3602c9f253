// A matrix product by cuBLASLt, which takes its workspace from us and never allocates.
//
// The algorithm is cuBLAS's first recommendation among those that add in a fixed order. Matrices
// are column-major: a row-major one is its own transpose.
//
//   ASSIGN_OR_RETURN(auto product, Matmul::Build(runtime, {.m = 64, .n = 32, .k = 128},
//   DType::kFp32)); RETURN_IF_ERROR(product->Run({a, b, c}));   // c {m, n} = a {m, k} b {k, n}
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/base/tensor.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {

// c {m, n} = op(a) op(b), summed over k; `batch` products, whose matrices are strides apart
// (elements).
struct MatmulShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  uint32_t alignment = 16;  // of the addresses of a and b, bytes; that of c is a multiple of 16
};

struct MatmulPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
  bool add = false;  // to what c holds
};

class Matmul {
 public:
  // Errors: UNIMPLEMENTED when cuBLAS has no algorithm for the shape. `runtime` outlives the
  // product.
  static absl::StatusOr<std::unique_ptr<Matmul>> Build(const Runtime& runtime,
                                                       const MatmulShape& shape, DType dtype,
                                                       int64_t workspace_bytes = 0);
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul();

  absl::Status Run(const MatmulPointers& pointers) const;

 private:
  explicit Matmul(const Runtime& runtime) : runtime_(runtime) {}
  absl::Status Describe(const MatmulShape& shape, DType dtype);
  absl::Status Choose(const MatmulShape& shape, int64_t workspace_bytes);
  absl::Status Transpose(cublasLtMatmulDescAttributes_t which, bool transpose);

  const Runtime& runtime_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
  size_t workspace_bytes_ = 0;
};

}  // namespace neap::cuda
