// A matrix product by oneDNN of parts of tensors, which lie anywhere with any two strides, one of
// which is 1.
//
//   MatrixProduct product({.rows = 8, .columns = 3, .row_step = 3},  // a
//                         {.rows = 3, .columns = 5, .row_step = 5},  // b
//                         {.rows = 8, .columns = 5, .row_step = 5},  // c
//                         /*adds=*/false);
//   product.MakeRunnable();
//   product.Run(a, b, c, scratch);  // c = a b
//
// Functions throw dnnl::error (GuardOnednn(), layers/cpu/onednn.h).
#pragma once

#include <cstdint>

#include "neap/layers/cpu/onednn.h"

namespace neap::cpu {

struct MatrixView {
  int64_t rows = 0, columns = 0;
  int64_t row_step = 1, column_step = 1;  // elements from one to the next
  MatrixView Transposed() const { return {columns, rows, column_step, row_step}; }
};

class MatrixProduct {
 public:
  // Of fp32 matrices; the product is added to c if `adds`.
  MatrixProduct(const MatrixView& a, const MatrixView& b, const MatrixView& c, bool adds);
  int64_t scratch_bytes() const;
  // Generates code, once.
  void MakeRunnable();
  void Run(const float* a, const float* b, float* c, void* scratch) const;

 private:
  dnnl::engine engine_ = {dnnl::engine::kind::cpu, 0};
  dnnl::matmul::primitive_desc desc_;
  dnnl::matmul product_;
};

}  // namespace neap::cpu
