// A 1x1 convolution and the batch norm behind it, perhaps with a sum and a ReLU, as matrix products
// that never hold the convolution's result:
//
//   y = batch_norm(convolution(x_0))              y = batch_norm(convolution(x_0)) + x_1
//   y = relu(batch_norm(convolution(x_0)))        y = relu(batch_norm(convolution(x_0)) + x_1)
//
// Let x be the matrix of n = N * H * W pixels by C channels, W the weight {K, C} and u = x W^T what
// the convolution would store. Statistics of u follow from the mean and the covariance of x, a
// vector and a C x C matrix:
//
//   mean(u_k) = W_k . mean(x)             var(u_k) = W_k cov(x) W_k^T
//
// With these, the normalisation is a factor and a shift per channel, which the weight and a bias
// take up: y = relu(x F^T + b + x_1), where F_k = gamma_k invstd_k W_k and b_k = beta_k - F_k .
// mean(x). Backward needs no u either, because batch norm's gradient is linear in it. Let dz be the
// gradient before the ReLU, or dy if there is none, H = dz^T x, and D_k = gamma_k invstd_k^2
// dgamma_k / n:
//
//   dbeta = sum of dz                     dgamma_k = invstd_k W_k . (H_k - dbeta_k mean(x))
//   dW_k = gamma_k invstd_k (H_k - dbeta_k mean(x) - dgamma_k invstd_k W_k cov(x))
//   dx   = dz F - (x - mean(x)) M - dbeta F / n           M = W^T diag(D) W
//
// These passes over tensors of K channels are left: forward writes y and reads x_1; backward
// computes dz and reads it twice (without a ReLU, it reads dy three times). If no product writes
// the mask, a pass over y does. The price is two more products, of C x C multiply-adds per pixel
// instead of the C x K of the others, so K must be larger than C.
//
//   step                 reads                                          writes
//   forward (training)   x_0, x_1, weight, gamma, beta                  y, mean, invstd, cov, mask
//     rerun              x_0, x_1, weight, gamma, beta, mean, invstd    y, mask
//   forward (inference)  x_0, x_1, weight, gamma, beta, running stat.   y
//   backward_activation  dy, mask                                       dz, dbeta
//   backward_params      x_0, dz, weight, gamma, mean, invstd, cov,     dweight, dgamma
//                        dbeta
//   backward_data        x_0, dz, weight, gamma, mean, invstd,          dx_0
//                        dgamma, dbeta
//
// In training, forward also accumulates running_mean and running_var. dz may overwrite dy. y may
// not overwrite x_1, because cuBLASLt's products have other bits then. x_1 exists if it adds; its
// gradient is dz, the same tensor. With a ReLU there is a mask, that of NormPass, and
// backward_activation, which adds dy of two steps as NormPass does. Without one, dy takes the
// place of dz, and backward_params writes dbeta. A rerun keeps cov alive, although no kernel reads
// it then.
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a Convolution,
// the BatchNorm that alone reads its output, an Add of two tensors and a Relu. Kernels compute
// statistics and all small matrices in fp32, and round F, b and M to the type of x; on a GPU,
// sums with x_1 in fp32 and tf32 are computed from u, which lies in y meanwhile. The results
// differ from those of the two layers by roundings: these round u to the type of x, and sum
// squares of u around its mean, where this layer has W_k cov(x) W_k^T, whose error is up to some
// 1e-6 times |W_k|^2 times the mean square of x. Rounding b shifts a channel by up to 2^-9
// (bf16) or 2^-12 (fp16) times |mean(u_k)| in deviations.
//
// On a GPU a NaN may become 0 where a ReLU follows. If the statistics, F or b are not finite, b is
// therefore infinity and F is 0 for that channel, so a NaN in x_0 or in a parameter is not lost in
// training. A NaN that is in x_1 only, or in inference in x_0 only, may be.
//
// params: 0 weight {K, C, 1, 1}, 1 weight (gamma) {K}, 2 bias (beta) {K}; states: 0 running_mean, 1
// running_var, both {K}; saved: 0 mean {C}, 1 invstd {K}, 2 cov {C * C}, 3 mask.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/batch_norm.h"

namespace neap {

struct FoldedConvolution {
  static constexpr std::string_view kType = "folded_convolution";
  // With fewer outputs, the small matrices take longer than the passes that they save
  // (FoldingGains()).
  static constexpr int64_t kMinOutputsPerInput = 2;    // K / C
  static constexpr int64_t kMinPixelsPerChannel = 64;  // n / C
  int64_t out_channels = 0;
  BatchNorm norm = {};
  bool adds = false;  // input 1
  bool relu = false;
  // Errors: INVALID_ARGUMENT also for images that are not NHWC, so that they are no matrix.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const FoldedConvolution&, const FoldedConvolution&) = default;
};

// Whether `folded`, a FoldedConvolution, is faster than the layers that it replaces, for these
// inputs.
bool FoldingGains(const Layer& folded, const LayerContext& context);

}  // namespace neap
