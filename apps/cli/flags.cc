#include "apps/cli/flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/cli/flag_names.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "neap/core/base/edit_distance.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

absl::Status ReadInteger(int64_t least, int64_t most, const std::string& text, int64_t& value) {
  const std::optional<int64_t> number = ReadWhole(text);
  if (number.has_value() && *number >= least && *number <= most) {
    value = *number;
    return absl::OkStatus();
  }
  if (most == std::numeric_limits<int64_t>::max()) {
    return BadUsage(absl::StrCat("'", text, "' is not a whole number of at least ", least));
  }
  return BadUsage(absl::StrCat("'", text, "' is not a whole number from ", least, " to ", most));
}

// User input may be of any length; an error message stays short.
std::string Shortened(const std::string& text) {
  constexpr size_t kMax = 64;
  return text.size() <= kMax ? text : absl::StrCat(text.substr(0, kMax), "...");
}

// A help text with more flags has sections.
constexpr size_t kMaxInOneSection = 20;

// "12", to which the next argument may be the unit: "--budget 12 GiB".
bool IsAmount(const std::string& text) {
  return text.find_first_not_of("0123456789.") == std::string::npos;
}

bool IsUnit(const std::string& text) {
  return !text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text.front())) &&
         ParseBytes("1" + text).ok();
}

// The form in which users type sizes: "8MiB".
std::string BytesText(int64_t bytes) {
  for (const auto& [size, name] : {std::pair(kGiB, "GiB"), {kMiB, "MiB"}, {kKiB, "KiB"}}) {
    if (bytes % size == 0) return absl::StrCat(bytes / size, name);
  }
  return absl::StrCat(bytes);
}

// A sorted list without duplicates; `parse` reads one value.
template <typename Parse>
FlagValue RisingList(size_t most_values, std::vector<int64_t>* values, std::string default_text,
                     const Parse& parse) {
  const auto read = [=](const std::string& text) {
    std::vector<int64_t> list;
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      int64_t value = 0;
      RETURN_IF_ERROR(parse(std::string(part), value));
      list.push_back(value);
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    if (list.size() > most_values)
      return BadUsage(
          absl::StrCat(list.size(), " values are given, at most ", most_values, " are possible"));
    *values = std::move(list);
    return absl::OkStatus();
  };
  return {.read = read, .default_text = std::move(default_text)};
}

}  // namespace

FlagValue Text(std::string* value) {
  const auto read = [value](const std::string& text) {
    if (text.empty()) return BadUsage("an empty value");
    *value = text;
    return absl::OkStatus();
  };
  return {.read = read, .default_text = *value};
}

FlagValue OneOf(std::vector<std::string> choices, std::string* value) {
  const auto read = [choices, value](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return BadUsage(absl::StrCat("unknown value '", Shortened(text), "'; one of ",
                                   absl::StrJoin(choices, ", ")));
    }
    *value = text;
    return absl::OkStatus();
  };
  return {.read = read, .default_text = *value, .choices = choices};
}

FlagValue Integer(int64_t least, int64_t most, std::optional<int64_t>* value) {
  const auto read = [=](const std::string& text) {
    int64_t number = 0;
    RETURN_IF_ERROR(ReadInteger(least, most, Shortened(text), number));
    *value = number;
    return absl::OkStatus();
  };
  return {.read = read, .default_text = value->has_value() ? absl::StrCat(**value) : ""};
}

FlagValue Texts(std::vector<std::string>* values) {
  const auto read = [values](const std::string& text) {
    if (text.empty()) return BadUsage("an empty value");
    values->push_back(text);
    return absl::OkStatus();
  };
  return {.read = read};
}

FlagValue ReadBytes(std::optional<int64_t>* bytes, int64_t least) {
  const auto read = [bytes, least](const std::string& text) {
    const absl::StatusOr<int64_t> parsed = ParseBytes(text, least);
    if (!parsed.ok()) return AsBadUsage(parsed.status());
    *bytes = *parsed;
    return absl::OkStatus();
  };
  return {.read = read};
}

FlagValue BytesList(size_t most_values, std::vector<int64_t>* values) {
  const auto parse = [](const std::string& text, int64_t& value) {
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    if (!bytes.ok()) return AsBadUsage(bytes.status());
    value = *bytes;
    return absl::OkStatus();
  };
  const auto append = [](std::string* out, int64_t bytes) {
    absl::StrAppend(out, BytesText(bytes));
  };
  return RisingList(most_values, values, absl::StrJoin(*values, ",", append), parse);
}

FlagValue IntegerList(int64_t least, int64_t most, size_t most_values,
                      std::vector<int64_t>* values) {
  const auto parse = [=](const std::string& text, int64_t& value) {
    return ReadInteger(least, most, Shortened(text), value);
  };
  return RisingList(most_values, values, absl::StrJoin(*values, ","), parse);
}

FlagValue Integer(int64_t least, int64_t most, int64_t* value) {
  const auto read = [=](const std::string& text) {
    return ReadInteger(least, most, Shortened(text), *value);
  };
  return {.read = read, .default_text = absl::StrCat(*value)};
}

FlagValue Real(double least, double most, float* value) {
  const auto read = [=](const std::string& text) {
    const std::optional<double> number = ReadDecimal(text);
    if (!number.has_value() || *number < least || *number > most) {
      return BadUsage(
          absl::StrFormat("'%s' is not a number from %g to %g", Shortened(text), least, most));
    }
    *value = static_cast<float>(*number);
    return absl::OkStatus();
  };
  return {.read = read, .default_text = absl::StrFormat("%g", *value)};
}

std::string Closest(const std::string& text, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::min(text.size(), std::max<size_t>(3, text.size() / 2));
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(text, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

void FlagSet::Add(std::string name, std::string placeholder, std::string help, FlagValue value) {
  flags_.push_back({std::move(name), std::move(placeholder), std::move(help), std::move(value)});
}

void FlagSet::Add(std::string name, std::string help, bool* value) {
  const auto read = [value](const std::string& /*text*/) {
    *value = true;
    return absl::OkStatus();
  };
  flags_.push_back({std::move(name), "", std::move(help), {.read = read}});
}

void FlagSet::Positional(std::string name, std::string help, std::string* value) {
  positional_ = std::move(name);
  positional_help_ = std::move(help);
  take_positional_ = [value](const std::string& text) { *value = text; };
}

void FlagSet::OptionalPositional(std::string name, std::string help, std::string* value) {
  Positional(std::move(name), std::move(help), value);
  positional_is_optional_ = true;
}

void FlagSet::Positional(std::string name, std::string help, std::vector<std::string>* values) {
  positional_ = std::move(name);
  positional_help_ = std::move(help);
  positional_repeats_ = true;
  take_positional_ = [values](const std::string& text) { values->push_back(text); };
}

void FlagSet::OptionalPositional(std::string name, std::string help,
                                 std::vector<std::string>* values) {
  Positional(std::move(name), std::move(help), values);
  positional_is_optional_ = true;
}

const FlagSet::Flag* FlagSet::Find(const std::string& name) const {
  const auto flag =
      std::find_if(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.name == name; });
  return flag == flags_.end() ? nullptr : &*flag;
}

bool FlagSet::Given(const std::string& name) const {
  return std::find(given_.begin(), given_.end(), name) != given_.end();
}

absl::Status FlagSet::Unknown(const std::string& name) const {
  if (name == "help") return BadUsage("--help takes no value");
  std::vector<std::string> known = {"help"};
  for (const Flag& flag : flags_) known.push_back(flag.name);
  const std::string meant = MeantBy(name, known);
  const std::string closest = meant.empty() ? Closest(name, known) : meant;
  return BadUsage(absl::StrCat("unknown flag --", Shortened(name),
                               closest.empty() ? "; --help lists the flags"
                                               : absl::StrCat("; did you mean --", closest, "?")));
}

absl::Status FlagSet::ParseFlag(const std::vector<std::string>& args, size_t& i) {
  const size_t equals = args[i].find('=');
  const bool inline_value = equals != std::string::npos;
  const std::string name = args[i].substr(2, inline_value ? equals - 2 : std::string::npos);
  const Flag* flag = Find(name);
  if (flag == nullptr) return Unknown(name);
  std::string text;
  if (flag->placeholder.empty()) {
    if (inline_value) return BadUsage(absl::StrCat("--", name, " takes no value"));
  } else if (inline_value) {
    text = args[i].substr(equals + 1);
  } else if (i + 1 < args.size() && args[i + 1].rfind("--", 0) != 0) {
    text = args[++i];
    const bool has_next = i + 1 < args.size();
    if (has_next && flag->placeholder == "BYTES" && IsAmount(text) && IsUnit(args[i + 1]))
      text += args[++i];
  } else {
    return BadUsage(absl::StrCat("--", name, " needs a value: --", name, " ", flag->placeholder));
  }
  given_.push_back(name);
  const absl::Status status = flag->value.read(text);
  return status.ok() ? status : BadUsage(absl::StrCat("--", name, ": ", status.message()));
}

absl::Status FlagSet::ParsePositional(const std::string& text) {
  if (take_positional_ == nullptr || (positional_given_ && !positional_repeats_)) {
    return BadUsage(absl::StrCat("unexpected argument '", Shortened(text), "'; usage: ", usage_));
  }
  take_positional_(text);
  positional_given_ = true;
  return absl::OkStatus();
}

absl::Status FlagSet::Parse(const std::vector<std::string>& args) {
  help_ = std::any_of(args.begin(), args.end(),
                      [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
  if (help_) return absl::OkStatus();
  for (size_t i = 0; i < args.size(); ++i) {
    RETURN_IF_ERROR(args[i].rfind("--", 0) == 0 ? ParseFlag(args, i) : ParsePositional(args[i]));
  }
  if (take_positional_ != nullptr && !positional_given_ && !positional_is_optional_) {
    return BadUsage(absl::StrCat(positional_, " is missing; usage: ", usage_, "; ", positional_,
                                 " is ", positional_help_));
  }
  return absl::OkStatus();
}

std::string FlagSet::HelpText() const {
  std::string text = absl::StrCat("usage: ", usage_, "\n\n", about_, "\n");
  if (!positional_.empty()) absl::StrAppend(&text, positional_, " is ", positional_help_, ".\n");
  const bool has_sections = flags_.size() > kMaxInOneSection;
  const absl::Span<const char* const> headings = Sections();
  for (size_t section = 0; section < headings.size(); ++section) {
    const bool is_last = section + 1 == headings.size();
    std::string lines;
    for (const Flag& flag : flags_) {
      const size_t own =
          has_sections ? SectionOf(flag.name, flag.placeholder) : headings.size() - 1;
      if (own == section) absl::StrAppend(&lines, LineOf(flag));
    }
    if (is_last) absl::StrAppend(&lines, LineOf({.name = "help", .help = "print this help"}));
    if (lines.empty()) continue;
    absl::StrAppend(&text, "\n", has_sections ? headings[section] : "flags", ":\n", lines);
  }
  return text;
}

std::string FlagSet::LineOf(const Flag& flag) {
  constexpr int kColumn = 26;
  const std::string left =
      absl::StrCat("--", flag.name, flag.placeholder.empty() ? "" : " ", flag.placeholder);
  std::string right = flag.help;
  if (!flag.value.choices.empty())
    absl::StrAppend(&right, ": ", absl::StrJoin(flag.value.choices, ", "));
  if (!flag.value.default_text.empty()) absl::StrAppend(&right, " (", flag.value.default_text, ")");
  if (left.size() < kColumn) return absl::StrFormat("  %-*s%s\n", kColumn, left, right);
  return absl::StrFormat("  %s\n  %-*s%s\n", left, kColumn, "", right);
}

int PrintHelp(const FlagSet& flags) {
  Print(flags.HelpText());
  return 0;
}

}  // namespace neap::apps
