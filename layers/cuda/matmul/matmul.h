// A matrix product by cuBLASLt, which uses the workspace that it is given and never allocates.
//
// Sums are fp32, whatever the types of the matrices. The algorithm is cuBLAS's first recommendation
// among those that add in a fixed order. Matrices are column-major; a row-major matrix is the
// transpose of a column-major one.
//
//   ASSIGN_OR_RETURN(auto product, Matmul::Build(runtime, {.m = 64, .n = 32, .k = 128},
//                                                DType::kFp32));
//   RETURN_IF_ERROR(product->Run({a, b, c}));  // c {m, n} = a {m, k} b {k, n}
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/base/tensor.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {

// c {m, n} = op(a) op(b), summed over k, for each of `batch` products. The strides are the
// distances between their matrices in elements.
struct MatmulShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  uint32_t alignment = 16;    // of a and b, in bytes
  uint32_t alignment_c = 16;  // of c
  // Elements from one column to the next of the matrices as they lie in memory; 0: no gaps.
  int64_t leading_a = 0, leading_b = 0, leading_c = 0;
};

// The types of a and b, and of c: 16-bit operands can have a result of their type or of fp32.
struct MatmulTypes {
  MatmulTypes(DType all) : operands(all), result(all) {}
  MatmulTypes(DType of_operands, DType of_result) : operands(of_operands), result(of_result) {}
  DType operands, result;
};

struct MatmulOptions {
  int64_t workspace_bytes = 0;
  bool bias = false;  // added to each column of c; its m elements have c's type
  bool relu = false;  // of the sum, only with a bias
  bool mask = false;  // of the ReLU: a bit per element, 1 if that was above 0; m a multiple of 128
};

// The workspace that cuBLAS recommends on Hopper.
inline constexpr int64_t kBlasWorkspace = 32 * kMiB;
// kBlasWorkspace, or 0 for a product of so few multiplications that it is not worth splitting.
int64_t BlasWorkspaceOf(const MatmulShape& shape);

// The alignment that addresses have, up to the 16 bytes of MatmulShape, if they are multiples of
// `bytes` from an aligned one.
uint32_t AlignmentOf(int64_t bytes);

struct MatmulPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
  const void* addend = nullptr;  // added to the product; of c's type and shape, perhaps c itself
  const void* bias = nullptr;    // with MatmulOptions::bias
  void* mask = nullptr;          // with MatmulOptions::mask
  float factor = 1;              // of the product
};

class Matmul {
 public:
  // Errors: UNIMPLEMENTED if cuBLAS has no algorithm for the shape. `runtime` must outlive the
  // product.
  static absl::StatusOr<std::unique_ptr<Matmul>> Build(const Runtime& runtime,
                                                       const MatmulShape& shape, MatmulTypes types,
                                                       const MatmulOptions& options = {});
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul();

  absl::Status Run(const MatmulPointers& pointers) const;

 private:
  Matmul(const Runtime& runtime, const MatmulOptions& options)
      : runtime_(runtime), options_(options) {}
  absl::Status Describe(const MatmulShape& shape, MatmulTypes types);
  absl::Status Choose(const MatmulShape& shape);
  template <typename Value>
  absl::Status Set(cublasLtMatmulDescAttributes_t which, const Value& value) const;

  const Runtime& runtime_;
  MatmulOptions options_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
  size_t workspace_bytes_ = 0;
};

}  // namespace neap::cuda
