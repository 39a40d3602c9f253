#include <cublasLt.h>

#include <cstring>
#include <vector>

#include "neap/core/base/float16.h"
#include "neap/layers/cuda/device/cublas_library.h"

struct EmulatedBlas {};
struct EmulatedPreference {};
struct EmulatedProduct {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* mask = nullptr;
  int64_t mask_rows = 0;
};
struct EmulatedMatrix {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0, columns = 0;
  int64_t leading = 0;  // elements from one column to the next
  int32_t batch = 1;
  int64_t stride = 0;
};

namespace {

using Matrix = std::vector<float>;

// Where element i of a matrix without gaps lies.
int64_t PlaceOf(size_t i, const EmulatedMatrix& layout, int batch) {
  const int64_t element = static_cast<int64_t>(i);
  return batch * layout.stride + element / layout.rows * layout.leading + element % layout.rows;
}

template <typename T>
void Load(const void* from, const EmulatedMatrix& layout, int batch, Matrix& matrix) {
  const T* const values = static_cast<const T*>(from);
  for (size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = static_cast<float>(values[PlaceOf(i, layout, batch)]);
}

template <typename T>
void Store(const Matrix& matrix, void* to, const EmulatedMatrix& layout, int batch) {
  T* const values = static_cast<T*>(to);
  for (size_t i = 0; i < matrix.size(); ++i) values[PlaceOf(i, layout, batch)] = T(matrix[i]);
}

Matrix Load(const void* from, const EmulatedMatrix& layout, int batch) {
  Matrix matrix(static_cast<size_t>(layout.rows * layout.columns));
  if (layout.type == CUDA_R_16F) {
    Load<neap::Fp16>(from, layout, batch, matrix);
  } else if (layout.type == CUDA_R_16BF) {
    Load<neap::Bf16>(from, layout, batch, matrix);
  } else {
    Load<float>(from, layout, batch, matrix);
  }
  return matrix;
}

void Store(const Matrix& matrix, void* to, const EmulatedMatrix& layout, int batch) {
  if (layout.type == CUDA_R_16F) {
    Store<neap::Fp16>(matrix, to, layout, batch);
  } else if (layout.type == CUDA_R_16BF) {
    Store<neap::Bf16>(matrix, to, layout, batch);
  } else {
    Store<float>(matrix, to, layout, batch);
  }
}

Matrix Transposed(const Matrix& matrix, int64_t rows) {
  Matrix result;
  result.reserve(matrix.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = static_cast<size_t>(row); i < matrix.size(); i += static_cast<size_t>(rows))
      result.push_back(matrix[i]);
  }
  return result;
}

// c {m, n} = a {k, m}^T b {k, n}
Matrix Product(const Matrix& a, const Matrix& b, size_t m, size_t n) {
  constexpr size_t kLanes = 16;  // partial sums
  const size_t k = a.size() / m;
  Matrix c(m * n);
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < m; ++i) {
      float parts[kLanes] = {};
      const float *const x = a.data() + i * k, *const y = b.data() + j * k;
      size_t l = 0;
      for (; l + kLanes <= k; l += kLanes) {
        for (size_t part = 0; part < kLanes; ++part) parts[part] += x[l + part] * y[l + part];
      }
      float sum = 0;
      for (; l < k; ++l) sum += x[l] * y[l];
      for (float part : parts) sum += part;
      c[j * m + i] = sum;
    }
  }
  return c;
}

// The epilogue of a product whose columns have `rows` elements.
void AddBias(const EmulatedProduct& product, cudaDataType_t type, Matrix& sum, size_t rows) {
  if (product.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return;
  const auto count = static_cast<int64_t>(rows);
  const Matrix bias = Load(product.bias, {type, count, 1, count}, 0);
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += bias[i % rows];
    const bool relu = product.epilogue != CUBLASLT_EPILOGUE_BIAS;
    if (relu && !(sum[i] > 0)) sum[i] = 0;  // also of NaN, as fmaxf()
  }
}

void WriteMask(const EmulatedProduct& product, const Matrix& sum) {
  if (product.epilogue != CUBLASLT_EPILOGUE_RELU_AUX_BIAS) return;
  uint8_t* const mask = static_cast<uint8_t*>(product.mask);
  std::memset(mask, 0, sum.size() / 8);
  for (size_t i = 0; i < sum.size(); ++i)
    mask[i / 8] = static_cast<uint8_t>(mask[i / 8] | (sum[i] != 0 ? 1 : 0) << (i % 8));
}

}  // namespace

size_t cublasLtGetVersion() { return 0; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "on the emulated GPU"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new EmulatedBlas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout =
      new EmulatedMatrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return leading >= (*layout)->rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t bytes) {
  const bool is_batch = which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  std::memcpy(is_batch ? static_cast<void*>(&layout->batch) : &layout->stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t,
                                        cudaDataType_t) {
  *product = new EmulatedProduct;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
  void* const fields[] = {&product->a,    &product->b,    &product->epilogue,
                          &product->bias, &product->mask, &product->mask_rows};
  std::memcpy(fields[which], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
// There are no epilogues for an odd number of rows, and no masks for other numbers than the
// multiples of 128 of cuBLASLt, so that what takes their place is tested, too.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *results = {};
  const bool odd = c->rows % 2 != 0 && product->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  const bool masks = product->epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
  const bool none = odd || (masks && (c->rows % 128 != 0 || product->mask_rows != c->rows));
  *found = none ? 0 : 1;
  return none ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t) {
  for (int batch = 0; batch < c_layout->batch; ++batch) {
    Matrix of_a = Load(a, *a_layout, batch), of_b = Load(b, *b_layout, batch);
    if (product->a == CUBLAS_OP_N) of_a = Transposed(of_a, a_layout->rows);
    if (product->b == CUBLAS_OP_T) of_b = Transposed(of_b, b_layout->rows);
    Matrix sum = Product(of_a, of_b, static_cast<size_t>(c_layout->rows),
                         static_cast<size_t>(c_layout->columns));
    for (float& value : sum) value *= *static_cast<const float*>(alpha);
    if (*static_cast<const float*>(beta) != 0) {
      const Matrix old = Load(c, *c_layout, batch);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += old[i];
    }
    AddBias(*product, c_layout->type, sum, static_cast<size_t>(c_layout->rows));
    WriteMask(*product, sum);
    Store(sum, d, *c_layout, batch);
  }
  return CUBLAS_STATUS_SUCCESS;
}

namespace neap::cuda {

absl::StatusOr<const CublasLibrary*> LoadCublas() {
  static const CublasLibrary library = {
      .create = cublasLtCreate,
      .destroy = cublasLtDestroy,
      .get_status_string = cublasLtGetStatusString,
      .get_version = cublasLtGetVersion,
      .matmul = cublasLtMatmul,
      .matmul_algo_get_heuristic = cublasLtMatmulAlgoGetHeuristic,
      .matmul_desc_create = cublasLtMatmulDescCreate,
      .matmul_desc_destroy = cublasLtMatmulDescDestroy,
      .matmul_desc_set_attribute = cublasLtMatmulDescSetAttribute,
      .matmul_preference_create = cublasLtMatmulPreferenceCreate,
      .matmul_preference_destroy = cublasLtMatmulPreferenceDestroy,
      .matmul_preference_set_attribute = cublasLtMatmulPreferenceSetAttribute,
      .matrix_layout_create = cublasLtMatrixLayoutCreate,
      .matrix_layout_destroy = cublasLtMatrixLayoutDestroy,
      .matrix_layout_set_attribute = cublasLtMatrixLayoutSetAttribute};
  return &library;
}

}  // namespace neap::cuda
