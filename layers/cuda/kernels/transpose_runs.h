// transpose_runs.cu
#pragma once

#include <cstdint>

#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// Matrices {rows, columns} of runs of elements, `outer` of them.
struct RunMatrix {
  int64_t outer = 1;
  int64_t rows = 1, columns = 1;
  int64_t run = 1;
};
// to = the transposed matrices: {outer, columns, rows, run}.
cudaError_t TransposeRuns(const RunMatrix& matrix, ConstArray from, Array to, cudaStream_t stream);

}  // namespace neap::kernels
