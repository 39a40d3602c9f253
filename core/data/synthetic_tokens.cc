#include "neap/core/data/synthetic_tokens.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "neap/core/base/philox.h"

namespace neap {
namespace {

constexpr uint32_t kOthers = 8;  // one token of so many is any

}  // namespace

absl::StatusOr<std::unique_ptr<SyntheticTokens>> SyntheticTokens::Create(
    SyntheticTokensOptions options) {
  if (options.tokens < 1 || options.classes < 1 || options.size < 1 ||
      options.classes > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make ", options.size, " synthetic sequences of ", options.tokens,
                     " tokens, of which there are ", options.classes));
  }
  return std::unique_ptr<SyntheticTokens>(new SyntheticTokens(options));
}

absl::Status SyntheticTokens::ReadTokens(int64_t index, const RandomView* /*view*/, int32_t* tokens,
                                         int32_t* labels) const {
  if (index < 0 || index >= options_.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("synthetic: no sequence ", index, " among ", options_.size));
  }
  const uint64_t stream =
      static_cast<uint64_t>(index) << 1 | static_cast<uint64_t>(options_.split != Split::kTrain);
  int64_t token = 0;
  for (int64_t i = 0; i <= options_.tokens; ++i) {
    const PhiloxBlock block =
        Philox({.key = options_.seed, .stream = stream, .position = static_cast<uint64_t>(i)});
    const bool is_any = i == 0 || block[1] % kOthers == 0;
    token = (is_any ? static_cast<int64_t>(block[0]) : 3 * token + 1) % options_.classes;
    if (i < options_.tokens) tokens[i] = static_cast<int32_t>(token);
    if (i > 0) labels[i - 1] = static_cast<int32_t>(token);
  }
  return absl::OkStatus();
}

absl::Status SyntheticTokens::Read(int64_t /*index*/, float* /*values*/,
                                   int32_t* /*labels*/) const {
  return absl::InvalidArgumentError("synthetic: tokens are not floats");
}

}  // namespace neap
