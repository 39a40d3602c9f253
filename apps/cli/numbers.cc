#include "apps/cli/numbers.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/strings/numbers.h"

namespace neap::apps {

std::optional<int64_t> ReadWhole(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
}

std::optional<double> ReadDecimal(std::string_view text) {
  double value = 0;
  const bool is_plain = text.find_first_not_of("0123456789.eE+-") == text.npos && !text.empty() &&
                        text.front() != '+';
  if (!is_plain || !absl::SimpleAtod({text.data(), text.size()}, &value)) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> ReadPercent(std::string_view text) {
  if (text.empty() || text.back() != '%') return std::nullopt;
  return ReadDecimal(text.substr(0, text.size() - 1));
}

}  // namespace neap::apps
