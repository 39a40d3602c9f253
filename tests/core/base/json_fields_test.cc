// What the readers of JSON files have in common; those of plans and descriptions of devices are
// tested as a whole elsewhere.
#include "neap/core/base/json_fields.h"

#include <doctest/doctest.h>

#include <string>

namespace neap {
namespace {

using Json = JsonFields::Json;

std::string ErrorOf(std::string_view text) {
  return std::string(ParseJson(text, "card").status().message());
}

TEST_CASE("a text that is not JSON is refused with the place where it ends to be") {
  CHECK(ErrorOf("") == "card: the text is not JSON (line 1, column 1)");
  CHECK(ErrorOf("{]") == "card: the text is not JSON (line 1, column 2)");
  CHECK(ErrorOf("{\n  \"a\": 1,\n  b}") == "card: the text is not JSON (line 3, column 3)");
  CHECK(ErrorOf("{} {}") == "card: the text is not JSON (line 1, column 4)");
  CHECK(ParseJson(R"({"a": [1, 2]})", "card").ok());
}

TEST_CASE("a number beyond those of 64 bits is refused") {
  CHECK(ErrorOf(R"({"a": 1e999})") == "card: a number is too large: numbers are at most 1.8e308");
  CHECK(ErrorOf(R"({"a": [-1e400]})") ==
        "card: a number is too large: numbers are at most 1.8e308");
  CHECK(ParseJson(R"({"a": 1.7e308})", "card").ok());
}

TEST_CASE("a field that an object has twice is refused by its name") {
  CHECK(ErrorOf(R"({"a": {"b": 1, "c": 2, "b": 1}})") ==
        "card: an object has the field \"b\" twice");
  CHECK(ParseJson(R"({"a": {"b": 1}, "b": 2})", "card").ok());
}

TEST_CASE("the first fault of an object is kept, and names its place and the field") {
  const Json json = {{"a", 1}, {"b", "text"}, {"c", 0.5}};
  JsonFields whole(json, "card", "");
  CHECK(whole.Integer("a") == 1);
  CHECK(whole.Text("b") == "text");
  CHECK(whole.Number("c") == 0.5);
  CHECK(whole.Finish().ok());

  JsonFields missing(json, "card", "parts[1]");
  missing.Integer("d");
  missing.Integer("b");
  CHECK(missing.Finish().message() == "card: parts[1]: has no field \"d\"");

  JsonFields wrong(json, "card", "");
  wrong.Integer("b");
  CHECK(wrong.Finish().message() == "card: b is not an integer from -2^60 to 2^60");

  const Json number = 1;
  CHECK(JsonFields(number, "card", "").Finish().message() == "card: is not an object");
}

TEST_CASE("a field that was not asked for is named, wherever it stands") {
  for (const int place : {0, 1, 2}) {
    Json json = Json::object();
    for (int i = 0; i < 3; ++i) {
      if (i == place) json["surprise"] = 1;
      json[std::string(1, static_cast<char>('a' + i))] = i;
    }
    JsonFields fields(json, "card", "");
    for (const char* const key : {"c", "a", "b"}) fields.Integer(key);
    CHECK(fields.Finish().message() == "card: has an unknown field \"surprise\"");
  }
  Json many = {{"a", 1}};
  for (int i = 0; i < 100; ++i) many["surprise" + std::to_string(i)] = i;
  many["b"] = 2;
  JsonFields fields(many, "card", "");
  CHECK(fields.Integer("a") == 1);
  CHECK(fields.Integer("b") == 2);
  CHECK(fields.Finish().message() == "card: has an unknown field \"surprise0\"");
}

}  // namespace
}  // namespace neap
