#include "neap/layers/cpu/tokens/matrix_product.h"

namespace neap::cpu {
namespace {

using dnnl::memory;

memory::desc DescOf(const MatrixView& matrix) {
  return {{matrix.rows, matrix.columns},
          memory::data_type::f32,
          memory::dims{matrix.row_step, matrix.column_step}};
}

dnnl::primitive_attr AttributesOf(bool adds) {
  dnnl::primitive_attr attributes = UserScratchpad();
  if (!adds) return attributes;
  dnnl::post_ops sum;
  sum.append_sum(1.0F);
  attributes.set_post_ops(sum);
  return attributes;
}

}  // namespace

MatrixProduct::MatrixProduct(const MatrixView& a, const MatrixView& b, const MatrixView& c,
                             bool adds)
    : desc_({DescOf(a), DescOf(b), DescOf(c)}, AttributesOf(adds), engine_) {}

int64_t MatrixProduct::scratch_bytes() const {
  return static_cast<int64_t>(desc_.scratchpad_desc().get_size());
}

void MatrixProduct::MakeRunnable() { product_ = dnnl::matmul(desc_); }

void MatrixProduct::Run(const float* a, const float* b, float* c, void* scratch) const {
  dnnl::stream stream(engine_);
  const auto memory_of = [&](const memory::desc& desc, const void* address) {
    return memory(desc, engine_, const_cast<void*>(address));  // read by the primitive
  };
  product_.execute(stream, {{DNNL_ARG_SRC, memory_of(desc_.src_desc(), a)},
                            {DNNL_ARG_WEIGHTS, memory_of(desc_.weights_desc(), b)},
                            {DNNL_ARG_DST, memory_of(desc_.dst_desc(), c)},
                            {DNNL_ARG_SCRATCHPAD, memory_of(desc_.scratchpad_desc(), scratch)}});
  stream.wait();
}

}  // namespace neap::cpu
