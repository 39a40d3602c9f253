// The U-Net of diffusion models (Ho et al., 2020; Dhariwal and Nichol, 2021), which predicts the
// noise in an image of a diffusion step: DDPM's networks, with the names of guided-diffusion's
// UNetModel.
//
//   time step -> sinusoids -> 2 linear layers --+  added per channel in every residual block
//                                               |
//   image -> conv -> blocks -> / 2 -> blocks -> ... -> blocks -> x 2 -> blocks -> conv -> noise
//                      |         join the encoder's output of every block            |
//                      +-------------------------------------------------------------+
//
// What every block of the encoder computes is alive until the decoder's block of the same size.
//
//   Graph net = nets::DiffusionUNet({.graph = {.batch = 64}});
//   Graph large = nets::DiffusionUNet(nets::DiffusionUNet256());
//   std::vector<float> times = nets::SinusoidalEmbedding({17, 900}, 128);
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/graph/graph.h"

namespace neap::nets {

// The defaults are DDPM's for CIFAR-10: 35,746,307 parameters.
struct DiffusionUNetOptions {
  GraphOptions graph = {.name = "ddpm-cifar10", .batch = 128};
  int64_t image = 32;        // height and width; a multiple of 2^(levels - 1)
  int64_t channels = 3;      // of the image
  int64_t out_channels = 3;  // of the noise
  int64_t width = 128;       // a multiple of 32
  std::vector<int64_t> multipliers = {1, 2, 2, 2};  // of the width, at each resolution
  int64_t blocks = 2;                               // residual blocks of the encoder at each
  std::vector<int64_t> attention = {16};  // heights at which each block has a self-attention
  int64_t heads = 1;
  float dropout = 0.1F;
};

// DDPM's for 256 x 256 pixels (LSUN, CelebA-HQ): 113,673,219 parameters.
DiffusionUNetOptions DiffusionUNet256();

// Feeds: "input", the noisy images, "timestep_embedding" {N, width}, a SinusoidalEmbedding() of the
// step of each image, and "targets", the noise, with which MeanSquaredError compares "out.2".
//
// Layers are called as in guided-diffusion, without its options for scales in norms and for
// residual blocks that change the size: time_embed.0, input_blocks.1.0.in_layers.0 ... out.2. Its
// attention has channels in this order if it has one head, or use_new_attention_order; the weights
// of qkv and proj_out have one extent of 1 more here. The last convolution of each block, of each
// attention and of the network begins at 0, as there.
Graph DiffusionUNet(const DiffusionUNetOptions& options);

// {steps, channels}: the cosines, then the sines of step * 10000^(-2 i / channels), for i from 0 to
// channels / 2 - 1; channels are even.
std::vector<float> SinusoidalEmbedding(const std::vector<int64_t>& steps, int64_t channels);

}  // namespace neap::nets
