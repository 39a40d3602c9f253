// Sequences of tokens generated from a seed, to try a network's size and speed, and to see that it
// learns, without a text. Nothing is stored.
//
// A token is followed by 3 times itself plus 1, modulo the vocabulary, in seven of eight cases, and
// otherwise by any. The first one is any. Each sequence is a pure function of (seed, split, index).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/vision/dataset.h"

namespace neap {

struct SyntheticTokensOptions {
  Split split = Split::kTrain;
  int64_t tokens = 1024;  // of a sequence
  int64_t classes = 50257;
  int64_t size = 50'000;  // sequences
  uint64_t seed = 1;
};

// *Threads*: safe from several at once.
class SyntheticTokens final : public Dataset {
 public:
  // Errors: INVALID_ARGUMENT for tokens, classes or size below 1, or more classes than an int32
  // counts.
  static absl::StatusOr<std::unique_ptr<SyntheticTokens>> Create(SyntheticTokensOptions options);
  int64_t size() const override { return options_.size; }
  int64_t classes() const override { return options_.classes; }
  ImageShape shape() const override { return {.w = options_.tokens}; }
  int64_t labels() const override { return options_.tokens; }
  std::vector<int64_t> extents() const override { return {options_.tokens}; }
  int64_t tokens() const override { return options_.tokens; }
  absl::Status ReadTokens(int64_t index, const RandomView* view, int32_t* tokens,
                          int32_t* labels) const override;
  // INVALID_ARGUMENT: tokens are not floats.
  absl::Status Read(int64_t index, float* values, int32_t* labels) const override;

 private:
  explicit SyntheticTokens(SyntheticTokensOptions options) : options_(options) {}

  SyntheticTokensOptions options_;
};

}  // namespace neap
