// Options that say which engines a catalog lists. A plan may also name those that are not listed.
#pragma once

#include <memory>

#include "neap/layers/catalog/engine_lists.h"

namespace neap {

struct EngineOptions {
  // For fp16 on CUDA, also cuDNN's convolutions that add products in fp16
  // (Engine::accumulates_in_half), after all others. They may be faster, but round every partial
  // sum, and sums beyond 65504 overflow.
  bool half_accumulation = false;
  // The place where cuDNN's lists are kept between runs; null: nowhere.
  std::shared_ptr<EngineLists> lists = nullptr;
};

}  // namespace neap
