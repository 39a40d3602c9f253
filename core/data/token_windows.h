// A dataset of tokens, the numbers that stand for pieces of text: files with nothing but these
// numbers, as nanoGPT's prepare.py writes them.
//
//   DIR/train.bin   little-endian uint16 (or uint32), one document after the other
//   DIR/val.bin     the same for validation; test.bin, if there is one, for tests
//
// An example is a window of T + 1 tokens: its first T are what the network reads, its last T, the
// same one further, the labels. Example i of evaluation is tokens [i T, i T + T], so that every
// token but the first is a label once (but for fewer than T at the end). For training, a window is
// at any offset, drawn from the seed and the position in the sequence of epochs; an epoch has as
// many windows as evaluation.
//
//   file      3 1 4 1 5 9 2 6      T = 3
//   window 0  3 1 4   -> 1 4 1
//   window 1  1 5 9   -> 5 9 2     6 would need two more
//
//   ASSIGN_OR_RETURN(std::unique_ptr<TokenWindows> text,
//                    TokenWindows::Open("DIR", {.tokens = 256}));
//   std::vector<int32_t> tokens(256), labels(256);
//   RETURN_IF_ERROR(text->ReadTokens(0, /*view=*/nullptr, tokens.data(), labels.data()));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/file.h"
#include "neap/core/vision/dataset.h"

namespace neap {

enum class TokenType : uint8_t { kUInt16, kUInt32 };

struct TokenWindowsOptions {
  Split split = Split::kTrain;
  TokenType type = TokenType::kUInt16;
  int64_t tokens = 1024;                // T
  std::optional<int64_t> classes = {};  // of the vocabulary; nullopt: the file is read for it
};

// *Threads*: safe from several at once.
class TokenWindows final : public Dataset {
 public:
  // Errors: NOT_FOUND for a missing file; DATA_LOSS for one that is not a whole number of tokens;
  // INVALID_ARGUMENT for fewer tokens than a window has, and for T or classes below 1.
  static absl::StatusOr<std::unique_ptr<TokenWindows>> Open(const std::string& directory,
                                                            const TokenWindowsOptions& options);
  int64_t size() const override { return (count_ - 1) / tokens_; }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return {.c = 1, .h = 1, .w = tokens_}; }
  int64_t labels() const override { return tokens_; }
  std::vector<int64_t> extents() const override { return {tokens_}; }
  bool has_views() const override { return true; }
  int64_t tokens() const override { return tokens_; }
  // Errors: those of dataset.h, for a token that is not in the vocabulary, too.
  absl::Status ReadTokens(int64_t index, const RandomView* view, int32_t* tokens,
                          int32_t* labels) const override;
  // INVALID_ARGUMENT: tokens are not floats.
  absl::Status Read(int64_t index, float* values, int32_t* labels) const override;

 private:
  TokenWindows(ReadableFile file, const TokenWindowsOptions& options, int64_t count)
      : file_(std::move(file)), type_(options.type), tokens_(options.tokens), count_(count) {}
  // Tokens [first, first + to.size()) of the file.
  absl::Status ReadRange(int64_t first, absl::Span<int32_t> to) const;
  absl::StatusOr<int64_t> FindClasses() const;

  ReadableFile file_;
  TokenType type_;
  int64_t tokens_;
  int64_t count_;  // tokens of the file
  int64_t classes_ = int64_t{1} << 31;
};

}  // namespace neap
