#include "neap/layers/cuda/matmul/matmul.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap::cuda {
namespace {

cudaDataType_t BlasType(DType dtype) {
  if (dtype == DType::kFp16) return CUDA_R_16F;
  return dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
}

struct Matrix {
  DType dtype;
  int64_t rows, columns, stride, leading;
};

absl::Status MakeLayout(const CublasLibrary& cublas, const Matrix& matrix, int64_t batch,
                        cublasLtMatrixLayout_t& layout) {
  RETURN_IF_ERROR(cublas.Checked(
      "cublasLtMatrixLayoutCreate",
      cublas.matrix_layout_create(&layout, BlasType(matrix.dtype),
                                  static_cast<uint64_t>(matrix.rows),
                                  static_cast<uint64_t>(matrix.columns),
                                  matrix.leading > 0 ? matrix.leading : matrix.rows)));
  const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const auto& value) {
    return cublas.Checked("cublasLtMatrixLayoutSetAttribute",
                          cublas.matrix_layout_set_attribute(layout, which, &value, sizeof(value)));
  };
  RETURN_IF_ERROR(set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch)));
  return set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.stride);
}

cublasLtEpilogue_t EpilogueOf(const MatmulOptions& options) {
  if (!options.bias) return CUBLASLT_EPILOGUE_DEFAULT;
  if (!options.relu) return CUBLASLT_EPILOGUE_BIAS;
  return options.mask ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_BIAS;
}

using Preference = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                                   cublasStatus_t (*)(cublasLtMatmulPreference_t)>;

absl::StatusOr<Preference> MakePreference(const CublasLibrary& cublas, int64_t workspace_bytes,
                                          const MatmulShape& shape) {
  cublasLtMatmulPreference_t raw = nullptr;
  RETURN_IF_ERROR(
      cublas.Checked("cublasLtMatmulPreferenceCreate", cublas.matmul_preference_create(&raw)));
  Preference preference(raw, cublas.matmul_preference_destroy);
  const uint64_t most = static_cast<uint64_t>(workspace_bytes);
  // In-place reduction would add the parts of K in the order in which they finish.
  const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    return cublas.Checked(
        "cublasLtMatmulPreferenceSetAttribute",
        cublas.matmul_preference_set_attribute(raw, which, &value, sizeof(value)));
  };
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.alignment));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.alignment));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.alignment_c));
  RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.alignment_c));
  return preference;
}

}  // namespace

int64_t BlasWorkspaceOf(const MatmulShape& shape) {
  constexpr int64_t kWorthIt = int64_t{1} << 24;
  return shape.m * shape.n * shape.k >= kWorthIt ? kBlasWorkspace : 0;
}

uint32_t AlignmentOf(int64_t bytes) {
  uint32_t alignment = 16;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Build(const Runtime& runtime,
                                                      const MatmulShape& shape, MatmulTypes types,
                                                      const MatmulOptions& options) {
  std::unique_ptr<Matmul> matmul(new Matmul(runtime, options));
  RETURN_IF_ERROR(matmul->Describe(shape, types));
  RETURN_IF_ERROR(matmul->Choose(shape));
  return matmul;
}

Matmul::~Matmul() {
  if (operation_ != nullptr) runtime_.cublas->matmul_desc_destroy(operation_);
  for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) runtime_.cublas->matrix_layout_destroy(layout);
  }
}

absl::Status Matmul::Run(const MatmulPointers& p) const {
  const float beta = p.addend != nullptr ? 1 : 0;
  if (options_.bias) RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias));
  if (options_.mask) RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.mask));
  return runtime_.cublas->Checked(
      "cublasLtMatmul",
      runtime_.cublas->matmul(runtime_.blas, operation_, &p.factor, p.a, a_, p.b, b_, &beta,
                              p.addend != nullptr ? p.addend : p.c, c_, p.c, c_, &algorithm_,
                              p.workspace, workspace_bytes_, runtime_.stream));
}

template <typename Value>
absl::Status Matmul::Set(cublasLtMatmulDescAttributes_t which, const Value& value) const {
  return runtime_.cublas->Checked(
      "cublasLtMatmulDescSetAttribute",
      runtime_.cublas->matmul_desc_set_attribute(operation_, which, &value, sizeof(value)));
}

absl::Status Matmul::Describe(const MatmulShape& s, MatmulTypes types) {
  const cublasComputeType_t compute =
      types.operands == DType::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const CublasLibrary& cublas = *runtime_.cublas;
  RETURN_IF_ERROR(cublas.Checked("cublasLtMatmulDescCreate",
                                 cublas.matmul_desc_create(&operation_, compute, CUDA_R_32F)));
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSA, operation(s.transpose_a)));
  RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSB, operation(s.transpose_b)));
  RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(options_)));
  if (options_.mask) RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.m));
  const DType dtype = types.operands;
  Matrix a = {dtype, s.m, s.k, s.stride_a, s.leading_a};
  Matrix b = {dtype, s.k, s.n, s.stride_b, s.leading_b};
  if (s.transpose_a) std::swap(a.rows, a.columns);
  if (s.transpose_b) std::swap(b.rows, b.columns);
  RETURN_IF_ERROR(MakeLayout(cublas, a, s.batch, a_));
  RETURN_IF_ERROR(MakeLayout(cublas, b, s.batch, b_));
  return MakeLayout(cublas, {types.result, s.m, s.n, s.stride_c, s.leading_c}, s.batch, c_);
}

absl::Status Matmul::Choose(const MatmulShape& s) {
  const CublasLibrary& cublas = *runtime_.cublas;
  ASSIGN_OR_RETURN(const Preference preference,
                   MakePreference(cublas, options_.workspace_bytes, s));
  const std::string call =
      absl::StrCat("cublasLtMatmulAlgoGetHeuristic ", s.batch, " of ", s.m, "x", s.n, "x", s.k);
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t status = cublas.matmul_algo_get_heuristic(
      runtime_.blas, operation_, a_, b_, c_, c_, preference.get(), 1, &best, &found);
  const bool none =
      status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (status == CUBLAS_STATUS_SUCCESS && (found == 0 || best.state != CUBLAS_STATUS_SUCCESS));
  if (none) return absl::UnimplementedError(absl::StrCat(call, ": no algorithm"));
  RETURN_IF_ERROR(cublas.Checked(call, status));
  algorithm_ = best.algo;
  workspace_bytes_ = best.workspaceSize;
  return absl::OkStatus();
}

}  // namespace neap::cuda
