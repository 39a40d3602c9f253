// Windows of tokens, in order and at random, and batches of them.
#include "neap/core/data/token_windows.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "neap/core/vision/loader.h"
#include "tests/core/data/data_files.h"

namespace neap {
namespace {

using testing::LittleEndian;

// Token i is 1000 - 3 i, or with 32 bits 100,000 more.
std::vector<uint16_t> Tokens(int count) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<uint16_t>(1000 - 3 * i));
  return tokens;
}

struct TokenFiles {
  TokenFiles() {
    WriteText(root.File("train.bin"), LittleEndian(Tokens(32)));
    WriteText(root.File("val.bin"), LittleEndian(Tokens(11)));
  }
  std::unique_ptr<TokenWindows> Open(const TokenWindowsOptions& options) const {
    auto windows = TokenWindows::Open(root.path(), options);
    REQUIRE_MESSAGE(windows.ok(), windows.status().ToString());
    return *std::move(windows);
  }
  ScratchDirectory root;
};

TEST_CASE("in order, each token but the first is a label once, and the next one's input") {
  const TokenFiles files;
  const auto text = files.Open({.split = Split::kValidation, .tokens = 3});
  CHECK(text->size() == 3);  // 11 tokens: 10 labels, of which the last has no window
  CHECK(text->classes() == 1001);
  CHECK(text->extents() == std::vector<int64_t>{3});
  CHECK(text->labels() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<int32_t> tokens(3), labels(3);
    REQUIRE(text->ReadTokens(i, nullptr, tokens.data(), labels.data()).ok());
    for (int64_t t = 0; t < 3; ++t) {
      CHECK(tokens[static_cast<size_t>(t)] == 1000 - 3 * (3 * i + t));
      CHECK(labels[static_cast<size_t>(t)] == 1000 - 3 * (3 * i + t + 1));
    }
  }
  CHECK(absl::IsInvalidArgument(text->ReadTokens(3, nullptr, nullptr, nullptr)));
  CHECK(absl::IsInvalidArgument(text->Read(0, nullptr, nullptr)));
}

TEST_CASE("at random, windows begin anywhere, by seed and position alone") {
  const TokenFiles files;
  const auto text = files.Open({.tokens = 4});
  const auto loader = Loader::Create(*text, {.batch = 8, .seed = 2, .crop = true}).value();
  std::set<int32_t> begins;
  for (int64_t step = 0; step < 60; ++step) {
    const Batch batch = loader->Next().value();
    CHECK(batch.images.empty());
    REQUIRE(batch.tokens.size() == 32);
    REQUIRE(batch.labels.size() == 32);
    for (size_t i = 0; i < 32; ++i) {
      CHECK(batch.labels[i] == batch.tokens[i] - 3);
      if (i % 4 > 0) CHECK(batch.tokens[i] == batch.labels[i - 1]);
      if (i % 4 == 0) begins.insert(batch.tokens[i]);
    }
    const LoaderOptions options = {.batch = 8, .seed = 2, .crop = true};
    CHECK(BatchOfStep(*text, options, step)->tokens == batch.tokens);
  }
  CHECK(begins.size() == 28);  // offsets 0 to 27
  CHECK(*begins.begin() == 1000 - 3 * 27);
  const auto other = BatchOfStep(*text, {.batch = 8, .seed = 3, .crop = true}, 0);
  CHECK(other->tokens != BatchOfStep(*text, {.batch = 8, .seed = 2, .crop = true}, 0)->tokens);
}

TEST_CASE("batches in order hold all windows, and the memory of a batch is used again") {
  const TokenFiles files;
  const auto text = files.Open({.tokens = 5});
  const auto loader = Loader::InOrder(*text, {.count = text->size()}, 4).value();
  Batch batch = loader->Next().value();
  CHECK(batch.tokens.size() == 20);
  batch = loader->Next(std::move(batch)).value();
  CHECK(batch.size == 2);
  CHECK(batch.tokens.front() == 1000 - 3 * 20);
  CHECK(ReadBatch(*text, 4, 4)->tokens == batch.tokens);
  const Batch part = PartOf(batch, 1, 1);
  CHECK(part.tokens == std::vector<int32_t>(batch.tokens.begin() + 5, batch.tokens.end()));
}

TEST_CASE("tokens of 32 bits, and files that are damaged or too short") {
  TokenFiles files;
  WriteText(files.root.File("train.bin"), LittleEndian<uint32_t>({70000, 1, 2, 70001}));
  const TokenWindowsOptions wide = {.type = TokenType::kUInt32, .tokens = 3};
  const auto text = files.Open(wide);
  std::vector<int32_t> tokens(3), labels(3);
  REQUIRE(text->ReadTokens(0, nullptr, tokens.data(), labels.data()).ok());
  CHECK(tokens == std::vector<int32_t>{70000, 1, 2});
  CHECK(labels == std::vector<int32_t>{1, 2, 70001});
  CHECK(text->classes() == 70002);

  const auto error_of = [&](const TokenWindowsOptions& options) {
    return TokenWindows::Open(files.root.path(), options).status();
  };
  CHECK(
      absl::IsInvalidArgument(error_of({.type = TokenType::kUInt32, .tokens = 4})));  // one too few
  CHECK(absl::IsInvalidArgument(error_of({.tokens = 0})));
  const auto small = files.Open({.type = TokenType::kUInt32, .tokens = 3, .classes = 70001});
  const absl::Status status = small->ReadTokens(0, nullptr, tokens.data(), labels.data());
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()).find("byte 12: token 70001 of 70001") != std::string::npos);
  WriteText(files.root.File("train.bin"), std::string(17, '\1'));
  CHECK(absl::IsDataLoss(error_of(wide)));
  WriteText(files.root.File("train.bin"), LittleEndian<uint32_t>({0, 1U << 31, 2, 3}));
  CHECK(absl::IsDataLoss(error_of(wide)));
  CHECK(absl::IsNotFound(TokenWindows::Open(files.root.File("none"), {}).status()));
}

TEST_CASE("OpenDataset() opens tokens, as many as the shape is wide") {
  const TokenFiles files;
  const auto text =
      OpenDataset("tokens:" + files.root.path(), {.shape = {{.w = 7}}, .classes = 2000}).value();
  CHECK(text->tokens() == 7);
  CHECK(text->classes() == 2000);
  CHECK(absl::IsInvalidArgument(BatchOfStep(*text, {.batch = 1, .flip = true}, 0).status()));
}

}  // namespace
}  // namespace neap
