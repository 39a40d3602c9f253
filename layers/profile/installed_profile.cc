#include "neap/layers/profile/installed_profile.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "installed_profile_texts.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/catalog/engine_id.h"

namespace neap {
namespace {

constexpr std::string_view kFirstLine = "neap installed profile 1";
constexpr int kBase = 36;  // of numbers of pieces and engines

// Removes the text before `end` and `end` itself, or all of it, from `text` and returns it.
std::string_view Cut(std::string_view& text, char end) {
  const size_t place = text.find(end);
  const std::string_view cut = text.substr(0, place);
  text.remove_prefix(place == std::string_view::npos ? text.size() : place + 1);
  return cut;
}

// Nullopt if the text is not such a number. `base` is empty for times.
template <typename Number, typename... Base>
std::optional<Number> ReadNumber(std::string_view text, Base... base) {
  Number number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, base...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

class InstalledProfileParser {
 public:
  explicit InstalledProfileParser(std::string_view text) : rest_(text) {}

  absl::StatusOr<InstalledProfile> Run() {
    if (NextLine() != kFirstLine) return Malformed("another format");
    ASSIGN_OR_RETURN(const std::string_view device, Header("device "));
    ASSIGN_OR_RETURN(const std::string_view versions, Header("versions "));
    profile_.device_ = {.name = std::string(device), .versions = std::string(versions)};
    ASSIGN_OR_RETURN(pieces_, List("pieces "));
    ASSIGN_OR_RETURN(const std::vector<std::string_view> engines, List("engines "));
    for (const std::string_view id : engines)
      profile_.engines_.push_back(EngineFromText(std::string(id)));
    ASSIGN_OR_RETURN(const size_t operations, Count("operations "));
    profile_.rows_of_.reserve(operations);
    for (size_t i = 0; i < operations; ++i) RETURN_IF_ERROR(ReadOperation());
    if (profile_.operations() != operations || !rest_.empty()) return Malformed("its length");
    profile_.rows_.shrink_to_fit();
    return std::move(profile_);
  }

 private:
  // A piece of the line before, and the hash of the operation's text up to its end.
  struct Piece {
    size_t place = 0;
    uint64_t hash = 0;
  };

  absl::Status Malformed(const char* what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("installed profile: line ", line_, ": malformed: ", what));
  }
  std::string_view NextLine() {
    ++line_;
    return Cut(rest_, '\n');
  }

  absl::StatusOr<std::string_view> Header(std::string_view name) {
    std::string_view line = NextLine();
    if (!line.starts_with(name)) return Malformed("the header");
    line.remove_prefix(name.size());
    return line;
  }
  // A number of lines that the text has.
  absl::StatusOr<size_t> Count(std::string_view name) {
    ASSIGN_OR_RETURN(const std::string_view text, Header(name));
    const std::optional<size_t> count = ReadNumber<size_t>(text, 10);
    if (!count.has_value() || *count > rest_.size()) return Malformed("a number of lines");
    return *count;
  }
  absl::StatusOr<std::vector<std::string_view>> List(std::string_view name) {
    ASSIGN_OR_RETURN(const size_t count, Count(name));
    std::vector<std::string_view> list(count);
    for (std::string_view& element : list) element = NextLine();
    return list;
  }

  absl::Status ReadOperation() {
    std::string_view rows = NextLine();
    ASSIGN_OR_RETURN(const uint64_t hash, ReadText(Cut(rows, ':')));
    const size_t begin = profile_.rows_.size();
    while (!rows.empty()) RETURN_IF_ERROR(ReadBatch(Cut(rows, ';')));
    const InstalledProfile::RowRange range = {begin, profile_.rows_.size()};
    profile_.rows_of_.emplace(hash, range);
    return absl::OkStatus();
  }

  // "BEFORE AFTER PIECE..."; the hash of the operation's text.
  absl::StatusOr<uint64_t> ReadText(std::string_view text) {
    const std::optional<size_t> before = ReadNumber<size_t>(Cut(text, ' '), kBase);
    const std::optional<size_t> after = ReadNumber<size_t>(Cut(text, ' '), kBase);
    const size_t most = line_before_.size();
    if (!before.has_value() || !after.has_value() || *before > most || *after > most - *before)
      return Malformed("an operation");
    last_pieces_.assign(line_before_.end() - static_cast<ptrdiff_t>(*after), line_before_.end());
    line_before_.resize(*before);
    while (!text.empty()) {
      const std::optional<size_t> place = ReadNumber<size_t>(Cut(text, ' '), kBase);
      if (!place.has_value() || *place >= pieces_.size()) return Malformed("a piece");
      Append(*place);
    }
    for (const Piece& piece : last_pieces_) Append(piece.place);
    return HashSoFar();
  }
  uint64_t HashSoFar() const {
    return line_before_.empty() ? StableHash("") : line_before_.back().hash;
  }
  void Append(size_t place) {
    line_before_.push_back({place, StableHash(pieces_[place], HashSoFar())});
  }

  // "BATCH,ROW,ROW..."
  absl::Status ReadBatch(std::string_view text) {
    const std::optional<int64_t> batch = ReadNumber<int64_t>(Cut(text, ','), 10);
    if (!batch.has_value() || *batch > std::numeric_limits<uint32_t>::max())
      return Malformed("a batch");
    while (!text.empty()) RETURN_IF_ERROR(ReadRow(*batch, Cut(text, ',')));
    return absl::OkStatus();
  }

  // "ENGINE[~] WORKSPACE MICROSECONDS"
  absl::Status ReadRow(int64_t batch, std::string_view text) {
    std::string_view number = Cut(text, ' ');
    const bool is_deterministic = !number.ends_with('~');
    if (!is_deterministic) number.remove_suffix(1);
    const std::string_view bytes = Cut(text, ' ');
    const std::optional<uint32_t> engine = ReadNumber<uint32_t>(number, kBase);
    const std::optional<int64_t> workspace_bytes =
        bytes.empty() ? int64_t{0} : ReadNumber<int64_t>(bytes, 10);
    const std::optional<double> us = ReadNumber<double>(text);
    if (!engine.has_value() || *engine >= profile_.engines_.size() ||
        !workspace_bytes.has_value() || !us.has_value())
      return Malformed("a row");
    const absl::Status possible = CheckPossible(
        {.batch = batch,
         .engine = {.id = profile_.engines_[*engine].id, .workspace_bytes = *workspace_bytes},
         .median_seconds = *us * 1e-6,
         .repeats = 1});
    if (!possible.ok()) return Malformed("impossible numbers");
    profile_.rows_.push_back({.workspace_bytes = *workspace_bytes,
                              .seconds = *us * 1e-6,
                              .batch = static_cast<uint32_t>(batch),
                              .engine = *engine,
                              .deterministic = is_deterministic});
    return absl::OkStatus();
  }

  std::string_view rest_;
  int64_t line_ = 0;
  std::vector<std::string_view> pieces_;
  std::vector<Piece> line_before_;  // while a line is read, its own pieces so far
  std::vector<Piece> last_pieces_;  // of the line before, as far as the line shares them
  InstalledProfile profile_;
};

absl::StatusOr<InstalledProfile> InstalledProfile::Parse(std::string_view text) {
  return InstalledProfileParser(text).Run();
}

std::vector<TimedEngine> InstalledProfile::Of(std::string_view operation) const {
  std::vector<TimedEngine> engines;
  const auto found = rows_of_.find(StableHash(operation));
  if (found == rows_of_.end()) return engines;
  for (size_t i = found->second.begin; i < found->second.end; ++i) {
    const Row& row = rows_[i];
    engines.push_back(WithTime(engines_[row.engine], row.batch, row.seconds));
    engines.back().workspace_bytes = row.workspace_bytes;
    engines.back().deterministic = row.deterministic;
  }
  return engines;
}

namespace {

// A text of the library, read when it is first asked for.
class InstalledText {
 public:
  explicit InstalledText(std::string_view text) : text_(text) {}

  bool IsOf(std::string_view device_name) const {
    std::string_view rest = text_;
    Cut(rest, '\n');
    std::string_view line = Cut(rest, '\n');
    return Cut(line, ' ') == "device" && line == device_name;
  }
  // Null if the text is malformed, which a test would have found.
  const InstalledProfile* Profile() {
    std::call_once(is_read_, [&] {
      absl::StatusOr<InstalledProfile> profile = InstalledProfile::Parse(text_);
      if (profile.ok()) profile_ = *std::move(profile);
    });
    return profile_.has_value() ? &*profile_ : nullptr;
  }

 private:
  std::string_view text_;
  std::once_flag is_read_;
  std::optional<InstalledProfile> profile_;
};

}  // namespace

const InstalledProfile* FindInstalledProfile(std::string_view device_name) {
  static const std::vector<std::unique_ptr<InstalledText>> texts = [] {
    std::vector<std::unique_ptr<InstalledText>> all;
    for (const std::string_view text : kInstalledProfileTexts)
      all.push_back(std::make_unique<InstalledText>(text));
    return all;
  }();
  for (const std::unique_ptr<InstalledText>& text : texts) {
    if (text->IsOf(device_name)) return text->Profile();
  }
  return nullptr;
}

}  // namespace neap
