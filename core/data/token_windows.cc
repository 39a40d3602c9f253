#include "neap/core/data/token_windows.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "neap/core/base/philox.h"
#include "neap/core/base/random_index.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image/random_view.h"

namespace neap {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read without byte swapping");

// Distinct from those of random_view.cc and of patch.cc.
constexpr uint64_t kWindowStream = (uint64_t{1} << 63) + (uint64_t{2} << 32);
constexpr int64_t kTokensAtOnce = int64_t{1} << 20;

int64_t BytesOf(TokenType type) { return type == TokenType::kUInt16 ? 2 : 4; }

absl::StatusOr<ReadableFile> OpenTokens(const std::string& directory, Split split) {
  if (split == Split::kTrain) return ReadableFile::Open(absl::StrCat(directory, "/train.bin"));
  const bool is_test = split == Split::kTest;
  absl::StatusOr<ReadableFile> file =
      ReadableFile::Open(absl::StrCat(directory, is_test ? "/test.bin" : "/val.bin"));
  if (!absl::IsNotFound(file.status())) return file;
  return ReadableFile::Open(absl::StrCat(directory, is_test ? "/val.bin" : "/test.bin"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenWindows>> TokenWindows::Open(
    const std::string& directory, const TokenWindowsOptions& options) {
  if (options.tokens < 1 || options.classes.value_or(1) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(directory, ": windows of ", options.tokens,
                                                   " tokens of ", options.classes.value_or(1),
                                                   " classes"));
  }
  ASSIGN_OR_RETURN(ReadableFile file, OpenTokens(directory, options.split));
  const int64_t bytes = BytesOf(options.type);
  const int64_t count = file.size_bytes() / bytes;
  if (file.size_bytes() % bytes != 0)
    return file.Corrupt(count * bytes, absl::StrCat("a part of a token of ", bytes, " bytes"));
  if (count <= options.tokens) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", count,
                                                   " tokens; a window and its labels take ",
                                                   options.tokens, " and one more"));
  }
  std::unique_ptr<TokenWindows> windows(new TokenWindows(std::move(file), options, count));
  if (options.classes.has_value()) {
    windows->classes_ = *options.classes;
  } else {
    ASSIGN_OR_RETURN(windows->classes_, windows->FindClasses());
  }
  return windows;
}

absl::StatusOr<int64_t> TokenWindows::FindClasses() const {
  int32_t largest = 0;
  std::vector<int32_t> part;
  for (int64_t first = 0; first < count_; first += kTokensAtOnce) {
    part.resize(static_cast<size_t>(std::min(kTokensAtOnce, count_ - first)));
    RETURN_IF_ERROR(ReadRange(first, absl::MakeSpan(part)));
    largest = std::max(largest, *std::max_element(part.begin(), part.end()));
  }
  return int64_t{largest} + 1;
}

absl::Status TokenWindows::ReadRange(int64_t first, absl::Span<int32_t> to) const {
  const int64_t bytes = BytesOf(type_);
  std::vector<std::byte> stored(to.size() * static_cast<size_t>(bytes));
  RETURN_IF_ERROR(file_.ReadAt(first * bytes, absl::MakeSpan(stored)));
  for (size_t i = 0; i < to.size(); ++i) {
    uint32_t token = 0;
    std::memcpy(&token, stored.data() + i * static_cast<size_t>(bytes), static_cast<size_t>(bytes));
    if (token >= static_cast<uint64_t>(classes_)) {
      return file_.Corrupt((first + static_cast<int64_t>(i)) * bytes,
                           absl::StrCat("token ", token, " of ", classes_));
    }
    to[i] = static_cast<int32_t>(token);
  }
  return absl::OkStatus();
}

absl::Status TokenWindows::ReadTokens(int64_t index, const RandomView* view, int32_t* tokens,
                                      int32_t* labels) const {
  if (index < 0 || index >= size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": no window ", index, " among ", size()));
  }
  int64_t first = index * tokens_;
  if (view != nullptr) {
    const PhiloxBlock random = Philox({.key = view->seed,
                                       .stream = kWindowStream,
                                       .position = static_cast<uint64_t>(view->position)});
    first = RandomIndex(random[0], random[1], count_ - tokens_);
  }
  std::vector<int32_t> window(static_cast<size_t>(tokens_ + 1));
  RETURN_IF_ERROR(ReadRange(first, absl::MakeSpan(window)));
  std::copy(window.begin(), window.end() - 1, tokens);
  std::copy(window.begin() + 1, window.end(), labels);
  return absl::OkStatus();
}

absl::Status TokenWindows::Read(int64_t /*index*/, float* /*values*/, int32_t* /*labels*/) const {
  return absl::InvalidArgumentError(
      absl::StrCat(file_.path(), " has tokens, which are integers; this network reads floats"));
}

}  // namespace neap
