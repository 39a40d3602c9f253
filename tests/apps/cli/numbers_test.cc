#include "apps/cli/numbers.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace neap::testing {
namespace {

using apps::ReadDecimal;
using apps::ReadPercent;
using apps::ReadWhole;

TEST_CASE("a whole number is digits with an optional minus sign") {
  CHECK(ReadWhole("0") == 0);
  CHECK(ReadWhole("-12") == -12);
  CHECK(ReadWhole("0007") == 7);
  CHECK(ReadWhole("9223372036854775807") == std::numeric_limits<int64_t>::max());
  for (const std::string text : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "-", "--1", "one",
                                 "1,000", "9223372036854775808"}) {
    CAPTURE(text);
    CHECK(!ReadWhole(text).has_value());
  }
}

TEST_CASE("a decimal number is digits with an optional point and exponent, without blanks") {
  CHECK(ReadDecimal("0.1") == 0.1);
  CHECK(ReadDecimal("-2.5e-3") == -2.5e-3);
  CHECK(ReadDecimal("1E+3") == 1000);
  CHECK(ReadDecimal(".5") == 0.5);
  CHECK(ReadDecimal("60") == 60);
  for (const std::string text : {"", " 1", "1 ", "+1", "0x1p3", "inf", "nan", "1e", "e3", ".",
                                 "1..2", "1e999", "1,5", "-"}) {
    CAPTURE(text);
    CHECK(!ReadDecimal(text).has_value());
  }
}

TEST_CASE("a percentage is a decimal number with a percent sign") {
  CHECK(ReadPercent("80%") == 80);
  CHECK(ReadPercent("62.5%") == 62.5);
  CHECK(ReadPercent("-1%") == -1);
  for (const std::string text : {"", "%", "80", "80 %", "80%%", "%80", "x%"}) {
    CAPTURE(text);
    CHECK(!ReadPercent(text).has_value());
  }
}

}  // namespace
}  // namespace neap::testing
