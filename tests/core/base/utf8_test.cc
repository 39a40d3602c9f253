#include "neap/core/base/utf8.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace neap {
namespace {

TEST_CASE("what is UTF-8 and what is not") {
  for (const char* const text :
       {"", "conv1", "\xc2\xa0", "r\xc3\xa9seau", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xf0\x90\x80\x80", "\xf0\x9f\x8c\x8a", "\xf4\x8f\xbf\xbf"}) {
    CAPTURE(text);
    CHECK(IsUtf8(text));
  }
  for (const char* const text : {"\xff", "a\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(",
                                 "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                                 "\xf0\x9f\x8c", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    CHECK_FALSE(IsUtf8(text));
  }
  CHECK(IsUtf8(std::string("zero \0 within", 13)));
}

bool IsJsonString(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

TEST_CASE("all pairs of bytes, with and without continuation bytes, agree with the JSON writer") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const std::string& rest :
           {std::string(), std::string("\x80"), std::string("\xbf\x80")}) {
        const std::string text = {static_cast<char>(first), static_cast<char>(second)};
        CAPTURE(first);
        CAPTURE(second);
        REQUIRE(IsUtf8(text + rest) == IsJsonString(text + rest));
      }
    }
  }
}

}  // namespace
}  // namespace neap
