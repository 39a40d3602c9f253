// Numbers as people type them: digits, a minus sign, a point and an exponent. Blanks around them, a
// plus sign, hexadecimal digits and words ("inf") are mistakes, which the C library would let pass.
//
//   ReadWhole("12");         // 12
//   ReadWhole(" 12");        // nothing
//   ReadDecimal("2.5e-3");   // 0.0025
//   ReadDecimal("0x1p3");    // nothing
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace neap::apps {

// Nothing for what is no such number, or for one that an int64_t or a double does not hold.
std::optional<int64_t> ReadWhole(std::string_view text);
std::optional<double> ReadDecimal(std::string_view text);

}  // namespace neap::apps
