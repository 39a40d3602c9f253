// The table of the networks that have a name (nets/registry.h): a part for each kind.
#pragma once

#include <string_view>

#include "absl/types/span.h"
#include "neap/core/graph/graph.h"
#include "neap/nets/by_name/check_options.h"
#include "neap/nets/registry.h"

namespace neap::nets {

struct Entry {
  Network network;
  Graph (*build)(const NetOptions& options);
  Takes takes = {};
};

absl::Span<const Entry> Classifiers();   // classifiers.cc: convolutional networks of one label
absl::Span<const Entry> Transformers();  // transformers.cc: of images and of text
absl::Span<const Entry> Decoders();      // decoders.cc: whose outputs are images or volumes

inline constexpr Takes kDropout = {.dropout = true};

constexpr Network ForImageNet(std::string_view name, std::string_view description,
                              int64_t image = 224) {
  return {.name = name, .description = description, .image = image, .channels = 3, .classes = 1000};
}

// `base` with the options that every network has.
template <typename Options>
Options WithOverrides(Options base, const NetOptions& options) {
  base.batch = options.batch.value_or(base.batch);
  base.image = options.image.value_or(base.image);
  base.channels = options.channels.value_or(base.channels);
  base.classes = options.classes.value_or(base.classes);
  base.dtype = options.dtype;
  base.layout = options.layout;
  if constexpr (requires { base.dropout; }) base.dropout = options.dropout.value_or(base.dropout);
  if constexpr (requires { base.aux_logits; }) base.aux_logits = options.aux_logits;
  return base;
}

}  // namespace neap::nets
