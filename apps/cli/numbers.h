// Parses numbers that consist of digits, a minus sign, a point and an exponent. Surrounding blanks,
// a plus sign, hexadecimal digits and words ("inf") are rejected, which the C library would accept.
//
//   ReadWhole("12");         // 12
//   ReadWhole(" 12");        // nothing
//   ReadDecimal("2.5e-3");   // 0.0025
//   ReadDecimal("0x1p3");    // nothing
//   ReadPercent("62.5%");    // 62.5
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace neap::apps {

// Empty for other text and for numbers outside the range of int64_t or double.
std::optional<int64_t> ReadWhole(std::string_view text);
std::optional<double> ReadDecimal(std::string_view text);
// A decimal number and "%"; empty for any other text.
std::optional<double> ReadPercent(std::string_view text);

}  // namespace neap::apps
