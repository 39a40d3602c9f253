#include "neap/core/data/npy_dictionary.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

// Walks through the text from its beginning. After a fault it stays where it is.
class NpyParser {
 public:
  NpyParser(std::string_view text, NpyHeader& header, NpyFault& fault)
      : text_(text), header_(header), fault_(fault) {}

  bool Parse() {
    if (!Take('{')) return Fail("a dictionary is expected");
    while (!Take('}')) {
      if (!ParseEntry()) return false;
      if (Take(',')) continue;
      if (Take('}')) break;
      return Fail("',' or '}' is expected");
    }
    SkipSpace();
    if (at_ < text_.size()) return Fail("nothing is expected behind the dictionary");
    if (has_type_ && has_order_ && has_shape_) return true;
    return Fail("'descr', 'fortran_order' or 'shape' is missing");
  }

 private:
  bool Fail(std::string what, absl::StatusCode code = absl::StatusCode::kDataLoss) {
    fault_ = {.at = at_, .what = std::move(what), .code = code};
    return false;
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }

  bool Take(char wanted) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // A string without escapes.
  bool TakeString(std::string_view& string) {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Fail("a string is expected");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return Fail("a string does not end");
    string = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  bool ParseEntry() {
    std::string_view key;
    if (!TakeString(key)) return false;
    if (!Take(':')) return Fail("':' is expected");
    if (key == "descr") return ParseOnce(has_type_, &NpyParser::ParseType);
    if (key == "fortran_order") return ParseOnce(has_order_, &NpyParser::ParseOrder);
    if (key == "shape") return ParseOnce(has_shape_, &NpyParser::ParseShape);
    return Fail(absl::StrCat("an unknown entry '", std::string(key.substr(0, 32)), "'"));
  }

  bool ParseOnce(bool& had, bool (NpyParser::*parse)()) {
    if (std::exchange(had, true)) return Fail("an entry is there twice");
    return (this->*parse)();
  }

  bool ParseType() {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '[')
      return Fail("records are not read, only numbers", absl::StatusCode::kInvalidArgument);
    std::string_view type;
    if (!TakeString(type)) return false;
    constexpr std::array<std::string_view, 12> kTypes = {"b1", "i1", "i2", "i4", "i8", "u1",
                                                         "u2", "u4", "u8", "f2", "f4", "f8"};
    for (const std::string_view known : kTypes) {
      if (type.size() != 3 || type.substr(1) != known) continue;
      header_.kind = known[0];
      header_.element_bytes = known[1] - '0';
      header_.big_endian = type[0] == '>';
      const bool is_byte = header_.element_bytes == 1;
      if (type[0] == '<' || type[0] == '>' || (type[0] == '|' && is_byte)) return true;
    }
    return Fail(absl::StrCat("elements of the type '", std::string(type.substr(0, 32)),
                             "' are not read; booleans, integers and floating-point numbers of "
                             "up to 8 bytes are"),
                absl::StatusCode::kInvalidArgument);
  }

  bool ParseOrder() {
    header_.fortran_order = TakeWord("True");
    return header_.fortran_order || TakeWord("False") || Fail("True or False is expected");
  }

  bool ParseShape() {
    if (!Take('(')) return Fail("a tuple is expected");
    while (!Take(')')) {
      int64_t extent = 0;
      if (!ParseExtent(extent)) return false;
      header_.extents.push_back(extent);
      if (static_cast<int64_t>(header_.extents.size()) > kMaxNpyAxes)
        return Fail(absl::StrCat("there are more than ", kMaxNpyAxes, " axes"));
      if (__builtin_mul_overflow(header_.elements, extent, &header_.elements) ||
          header_.elements > kMaxNpyElements)
        return Fail(absl::StrCat("there are more than ", kMaxNpyElements, " elements"),
                    absl::StatusCode::kInvalidArgument);
      if (Take(',')) continue;
      if (Take(')')) break;
      return Fail("',' or ')' is expected");
    }
    return true;
  }

  bool ParseExtent(int64_t& extent) {
    SkipSpace();
    const size_t first = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(extent, 10, &extent) ||
          __builtin_add_overflow(extent, text_[at_] - '0', &extent))
        return Fail("an extent is too large", absl::StatusCode::kInvalidArgument);
    }
    if (at_ == first) return Fail("an extent is expected");
    if (extent == 0) return Fail("the array has no elements", absl::StatusCode::kInvalidArgument);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool has_type_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
  NpyHeader& header_;
  NpyFault& fault_;
};

}  // namespace

bool ParseNpyDictionary(std::string_view text, NpyHeader& header, NpyFault& fault) {
  return NpyParser(text, header, fault).Parse();
}

}  // namespace neap
