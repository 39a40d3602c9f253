// The rules by which neap's own layers are rewritten for a device (core/step/rewrite_rules.h).
//
//   stage      layers                                            become
//   fold       1x1 convolution, batch norm, [add], [relu]        folded_convolution
//   pass       batch norm, [add], [relu | clip | hard_swish |    norm_pass
//              silu], [max_pool | global_average_pool]
//              concat, batch norm, [relu]                        norm_pass
//              batch norms, [relus], concat                      concat_batch_norms
//              group norm or instance norm, relu | leaky_relu |  activated_group_norm
//              silu | gelu
//              relu, max_pool                                    fused_relu
//              [scale_shift], [stochastic_depth], add            residual_tail
//   epilogue   convolution, relu                                 fused_convolution
//              1x1 convolution, add, with channels last          residual_convolution
//              convolution with a bias, fused_relu               the bias moves into fused_relu
//              convolution with a bias, gelu                     the bias moves into biased_gelu
//              convolution with a bias, instance norm            the bias moves into
//                                                                activated_group_norm
//   ranks      batch norm                                        batch_norm_statistics and
//                                                                batch_norm_apply
//
// A device with other kernels has another table: CPUs have no epilogues, because their kernels of
// convolutions add biases at no cost, and with other bits.
//
//   DeviceDescription device = {.kind = "cpu", .rules = CpuRules()};
#pragma once

#include "neap/core/step/rewrite_rules.h"

namespace neap {

RewriteRules CpuRules();
RewriteRules GpuRules();

}  // namespace neap
