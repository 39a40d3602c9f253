#include "neap/core/base/units.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>

namespace neap {
namespace {

TEST_CASE("GB are powers of 1000, GiB powers of 1024, in any case") {
  for (const auto& [given, bytes] : {std::pair<const char*, int64_t>{"12GB", 12'000'000'000},
                                     {"12GiB", 12884901888},
                                     {"12gib", 12884901888},
                                     {"12 GiB", 12884901888},
                                     {"12.000 GiB", 12884901888},
                                     {"64KB", 64000},
                                     {"64KiB", 65536},
                                     {"1MB", 1000000},
                                     {"1TB", 1000000000000},
                                     {"1TiB", 1099511627776},
                                     {"4096", 4096},
                                     {"1", 1},
                                     {"1B", 1},
                                     {"1.5MiB", 1572864},
                                     {".5KiB", 512},
                                     {"2.KiB", 2048},
                                     {"0007", 7}}) {
    const std::string text = given;
    CAPTURE(text);
    REQUIRE(ParseBytes(text).ok());
    CHECK(*ParseBytes(text) == bytes);
  }
}

TEST_CASE("amounts are exact to the byte") {
  CHECK(*ParseBytes("9007199254740993") == 9007199254740993);  // not representable as a double
  CHECK(*ParseBytes("4.35KB") == 4350);                        // 4.35 * 1000.0 < 4350
  CHECK(*ParseBytes("1.0000000009GB") == 1000000000);          // rounded down
  CHECK(*ParseBytes("9223372036854775807") == std::numeric_limits<int64_t>::max());
  CHECK(*ParseBytes("0", 0) == 0);
  CHECK(*ParseBytes("0 MiB", 0) == 0);
  CHECK(!ParseBytes("-1", 0).ok());
  CHECK(!ParseBytes("1023B", kKiB).ok());
}

TEST_CASE("a text that is not a byte size is refused, and the message contains it") {
  for (const char* text : {"",
                           " ",
                           "GiB",
                           "-1",
                           "-12GiB",
                           "+5",
                           "0",
                           "0GiB",
                           "0.9",
                           "0.0001KiB",
                           "12  GiB",
                           "12 ",
                           " GiB",
                           " 12GiB",
                           "12GiB ",
                           "12Gi",
                           "12G",
                           "12XB",
                           "1.2.3GiB",
                           ".",
                           ".GiB",
                           "1e3",
                           "0x10",
                           "nan",
                           "inf",
                           "12GiBGiB",
                           "9223372036854775808",
                           "8388608TiB",
                           "99999999999999999999999999"}) {
    CAPTURE(std::string(text));
    const auto parsed = ParseBytes(text);
    CHECK(parsed.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(parsed.status().message()).find("'" + std::string(text) + "'") !=
          std::string::npos);
  }
}

TEST_CASE("a unit without its end is refused with the two units that it could be") {
  for (const auto& [given, units] :
       {std::pair<const char*, const char*>{"512M", "512MiB or 512MB?"},
        {"12g", "12GiB or 12GB?"},
        {"1.5Ti", "1.5TiB or 1.5TB?"},
        {"64k", "64KiB or 64KB?"}}) {
    const std::string text = given;
    CAPTURE(text);
    const absl::Status status = ParseBytes(text).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()) == "'" + text + "' is not a byte size: " + units);
  }
  for (const std::string text : {"M", ".M", "1.2.3G", "12Gib?", "12P"}) {
    CHECK(std::string(ParseBytes(text).status().message()) ==
          "'" + text + "' is not a byte size; write for example 12GiB (2^30) or 12GB (10^9)");
  }
}

TEST_CASE("bytes print in the largest unit that leaves at least one") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1024) == "1.000 KiB");
  CHECK(FormatBytes(1610612736) == "1.500 GiB");
  CHECK(FormatBytes(-5) == "-5 B");
}

TEST_CASE("rounding up leaves multiples alone") {
  CHECK(RoundUp(0, 1024) == 0);
  CHECK(RoundUp(1, 1024) == 1024);
  CHECK(RoundUp(1024, 1024) == 1024);
  CHECK(RoundUp(1025, 1024) == 2048);
}

}  // namespace
}  // namespace neap
