// What neap uses of cuDNN outside layers/cuda/cudnn_convolution.cc.
#pragma once

#include <cstddef>

size_t cudnnGetVersion();
