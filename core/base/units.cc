#include "neap/core/base/units.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace neap {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr int64_t kTera = 1'000'000'000'000;
constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", kKiB},
                                          {"MiB", kMiB},
                                          {"GiB", kGiB},
                                          {"TiB", 1024 * kGiB},
                                          {"KB", kTera / 1'000'000'000},
                                          {"MB", kTera / 1'000'000},
                                          {"GB", kTera / 1000},
                                          {"TB", kTera}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "12.5" -> {"12", "5"}; nullopt unless the text has a digit and at most one point.
struct Decimal {
  std::string_view whole;
  std::string_view fraction;
};
std::optional<Decimal> SplitDecimal(std::string_view text) {
  const size_t point = text.find('.');
  const Decimal decimal = {text.substr(0, point),
                           point == text.npos ? std::string_view() : text.substr(point + 1)};
  const auto all_digits = [](std::string_view digits) {
    return std::all_of(digits.begin(), digits.end(), IsDigit);
  };
  if (!all_digits(decimal.whole) || !all_digits(decimal.fraction)) return std::nullopt;
  if (decimal.whole.empty() && decimal.fraction.empty()) return std::nullopt;
  return decimal;
}

// Computes in integers: 4.35 KB are 4350 bytes, but doubles would give 4349.
std::optional<int64_t> Multiply(const Decimal& decimal, int64_t unit) {
  int64_t bytes = 0;
  for (char digit : decimal.whole) {
    if (__builtin_mul_overflow(bytes, int64_t{10}, &bytes) ||
        __builtin_add_overflow(bytes, int64_t{digit - '0'}, &bytes)) {
      return std::nullopt;
    }
  }
  if (__builtin_mul_overflow(bytes, unit, &bytes)) return std::nullopt;
  constexpr size_t kDigitsThatMatter = 15;
  const std::string_view digits = decimal.fraction.substr(0, kDigitsThatMatter);
  int64_t numerator = 0;
  int64_t denominator = 1;
  for (char digit : digits) {
    numerator = 10 * numerator + (digit - '0');
    denominator *= 10;
  }
  __extension__ using Wide = __int128;
  const int64_t below = static_cast<int64_t>(static_cast<Wide>(numerator) * unit / denominator);
  if (__builtin_add_overflow(bytes, below, &bytes)) return std::nullopt;
  return bytes;
}

// "M" for "M" or "Mi"; empty if the text is not a unit without its "B".
std::string_view Prefix(const std::string& unit_text) {
  for (const char* const prefix : {"K", "M", "G", "T"}) {
    if (absl::EqualsIgnoreCase(unit_text, prefix) ||
        absl::EqualsIgnoreCase(unit_text, absl::StrCat(prefix, "i"))) {
      return prefix;
    }
  }
  return {};
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(std::string_view text, int64_t least) {
  const auto unit_begin =
      std::find_if(text.begin(), text.end(), [](char c) { return !IsDigit(c) && c != '.'; });
  const size_t digits = static_cast<size_t>(unit_begin - text.begin());
  std::string_view unit_part = text.substr(digits);
  // "12 GiB", as FormatBytes() writes it.
  if (unit_part.size() > 1 && unit_part.front() == ' ') unit_part.remove_prefix(1);
  const std::string unit_text(unit_part);
  const std::optional<Decimal> number = SplitDecimal(text.substr(0, digits));
  for (const Unit& unit : kUnits) {
    if (!number.has_value() || !absl::EqualsIgnoreCase(unit.name, unit_text)) continue;
    const std::optional<int64_t> bytes = Multiply(*number, unit.bytes);
    if (bytes.has_value() && *bytes >= least) return *bytes;
  }
  if (const std::string_view prefix = Prefix(unit_text); number.has_value() && !prefix.empty()) {
    const std::string_view amount = text.substr(0, digits);
    return absl::InvalidArgumentError(absl::StrFormat("'%s' is not a byte size: %s%siB or %s%sB?",
                                                      text, amount, prefix, amount, prefix));
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "'%s' is not a byte size; write for example 12GiB (2^30) or 12GB (10^9)", text));
}

std::string FormatBytes(int64_t bytes) {
  constexpr std::array<std::pair<int64_t, std::string_view>, 3> kSteps = {
      {{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}};
  for (const auto& [size, name] : kSteps) {
    if (bytes >= size) {
      return absl::StrFormat("%.3f %s", static_cast<double>(bytes) / static_cast<double>(size),
                             name);
    }
  }
  return absl::StrCat(bytes, " B");
}

}  // namespace neap
