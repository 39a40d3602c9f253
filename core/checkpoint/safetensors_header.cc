#include "neap/core/checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/crc32.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using Fault = std::optional<SafetensorsFault>;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kHeaderChecksum = "neap.header_crc32";
constexpr std::string_view kDataChecksum = "neap.data_crc32";
constexpr std::string_view kNoChecksum = "00000000";

// The size of a tensor; nullopt if an extent is negative or the size overflows.
std::optional<int64_t> SizeBytes(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t size = element_bytes;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) return std::nullopt;
  }
  return size;
}

// A fault at the first occurrence of the name in the text, which approximates the place of the
// fault.
Fault FaultAt(std::string_view text, std::string_view name, std::string_view what) {
  const size_t found = text.find(absl::StrFormat("\"%s\"", name));
  return SafetensorsFault{found == std::string_view::npos ? 0 : static_cast<int64_t>(found),
                          absl::StrFormat("'%s': %s", name, what)};
}

std::string ChecksumText(uint32_t crc32) { return absl::StrFormat("%08x", crc32); }

// Eight lower-case hexadecimal digits.
std::optional<uint32_t> ParseChecksum(const std::string& text) {
  uint32_t crc32 = 0;
  const bool is_number = absl::SimpleHexAtoi(text, &crc32);
  return is_number && ChecksumText(crc32) == text ? std::optional(crc32) : std::nullopt;
}

void AddText(std::string_view text, Crc32& crc) {
  crc.Add({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

// The position of the value of `key`, which is `value`, in the text; npos if it is not found.
size_t FindValue(std::string_view text, std::string_view key, std::string_view value) {
  const std::string field = absl::StrFormat("\"%s\":\"%s\"", key, value);
  const size_t found = text.find(field);
  return found == std::string_view::npos ? found : found + field.size() - 1 - value.size();
}

// The header text's checksum with zeros in place of `stored`, its stored checksum; nullopt if the
// text does not contain it.
std::optional<std::string> HeaderChecksum(std::string_view text, std::string_view stored) {
  const size_t place = FindValue(text, kHeaderChecksum, stored);
  if (place == std::string_view::npos) return std::nullopt;
  Crc32 crc;
  AddText(text.substr(0, place), crc);
  AddText(kNoChecksum, crc);
  AddText(text.substr(place + stored.size()), crc);
  return ChecksumText(crc.value());
}

Fault ParseJson(std::string_view text, Json& json) {
  std::set<std::string> names;
  std::optional<std::string> twice;
  const auto remember = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key &&
        !names.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  try {
    json = Json::parse(text.begin(), text.end(), remember);
  } catch (const Json::parse_error& error) {
    const int64_t position = static_cast<int64_t>(std::min(error.byte, text.size()));
    return SafetensorsFault{position, "the header is not valid JSON"};
  } catch (const Json::exception& error) {
    return SafetensorsFault{0, absl::StrCat("the header is not valid JSON: ", error.what())};
  }
  if (twice) return FaultAt(text, *twice, "defined twice");
  if (!json.is_object() || text.front() != '{') {
    return SafetensorsFault{0, "the header is not a JSON object"};
  }
  return std::nullopt;
}

// A list of integers in [0, 2^63).
std::optional<std::vector<int64_t>> Integers(const Json& parent, const char* key) {
  const auto list = parent.find(key);
  if (list == parent.end() || !list->is_array()) return std::nullopt;
  std::vector<int64_t> result;
  for (const Json& item : *list) {
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    if (!item.is_number_unsigned() || item.get<uint64_t>() > kMax) return std::nullopt;
    result.push_back(item.get<int64_t>());
  }
  return result;
}

Fault ParseEntry(std::string_view text, const std::string& name, const Json& json,
                 SafetensorsEntry& entry) {
  if (!json.is_object()) return FaultAt(text, name, "no object");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return FaultAt(text, name, "no dtype");
  entry.name = name;
  entry.dtype = dtype->get<std::string>();
  const int64_t element_bytes = SafetensorsElementBytes(entry.dtype);
  if (element_bytes == 0) {
    return FaultAt(text, name, absl::StrCat("unknown dtype '", entry.dtype, "'"));
  }
  const auto shape = Integers(json, "shape");
  if (!shape) return FaultAt(text, name, "no valid shape");
  const auto offsets = Integers(json, "data_offsets");
  if (!offsets || offsets->size() != 2 || offsets->front() > offsets->back()) {
    return FaultAt(text, name, "no valid data_offsets");
  }
  entry.shape = *shape;
  entry.offset = offsets->front();
  entry.size_bytes = offsets->back() - offsets->front();
  if (SizeBytes(entry.shape, element_bytes) != entry.size_bytes) {
    return FaultAt(text, name, "its shape and dtype do not make the bytes it has");
  }
  return std::nullopt;
}

Fault TakeChecksums(std::string_view text, SafetensorsHeader& header) {
  SafetensorsMetadata& metadata = header.metadata;
  if (const auto stored = metadata.find(std::string(kHeaderChecksum)); stored != metadata.end()) {
    if (HeaderChecksum(text, stored->second) != stored->second) {
      return SafetensorsFault{0, "the header's checksum is wrong"};
    }
    metadata.erase(stored);
  }
  if (const auto stored = metadata.find(std::string(kDataChecksum)); stored != metadata.end()) {
    header.data_crc32 = ParseChecksum(stored->second);
    if (!header.data_crc32.has_value()) return FaultAt(text, kDataChecksum, "not a checksum");
    metadata.erase(stored);
  }
  return std::nullopt;
}

Fault ParseMetadata(std::string_view text, const Json& json, SafetensorsHeader& header) {
  if (!json.is_object()) return FaultAt(text, kMetadata, "no object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return FaultAt(text, key, "metadata that is not a string");
    header.metadata[key] = value.get<std::string>();
  }
  return TakeChecksums(text, header);
}

absl::Status Lay(std::string_view path, std::vector<SafetensorsEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return SafetensorsElementBytes(a.dtype) > SafetensorsElementBytes(b.dtype);
  });
  std::set<std::string_view> names;
  int64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    const int64_t element_bytes = SafetensorsElementBytes(entry.dtype);
    const std::optional<int64_t> size = SizeBytes(entry.shape, element_bytes);
    const bool is_new = names.insert(entry.name).second && entry.name != kMetadata;
    entry.offset = end;
    if (!is_new || element_bytes == 0 || !size || __builtin_add_overflow(end, *size, &end)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: tensor '%s': %s", path, entry.name,
                          !is_new              ? "a name taken already"
                          : element_bytes == 0 ? absl::StrCat("unknown dtype '", entry.dtype, "'")
                                               : "its shape is negative or too large"));
    }
    entry.size_bytes = *size;
  }
  return absl::OkStatus();
}

OrderedJson ToJson(const SafetensorsHeader& header) {
  OrderedJson json = OrderedJson::object();
  OrderedJson& metadata = json[std::string(kMetadata)];
  metadata[std::string(kHeaderChecksum)] = kNoChecksum;
  metadata[std::string(kDataChecksum)] = kNoChecksum;
  for (const auto& [key, value] : header.metadata) {
    if (key != kHeaderChecksum && key != kDataChecksum) metadata[key] = value;
  }
  for (const SafetensorsEntry& entry : header.entries) {
    OrderedJson& tensor = json[entry.name];
    tensor["dtype"] = entry.dtype;
    tensor["shape"] = entry.shape;
    tensor["data_offsets"] = {entry.offset, entry.offset + entry.size_bytes};
  }
  return json;
}

}  // namespace

int64_t SafetensorsElementBytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int64_t> kDtypes[] = {
      {"F64", 8}, {"I64", 8}, {"U64", 8},  {"F32", 4},     {"I32", 4},
      {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2},     {"U16", 2},
      {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

std::optional<SafetensorsFault> ParseSafetensorsHeader(std::string_view text,
                                                       SafetensorsHeader& header) {
  Json json;
  if (Fault fault = ParseJson(text, json)) return fault;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      if (Fault fault = ParseMetadata(text, value, header)) return fault;
      continue;
    }
    if (Fault fault = ParseEntry(text, name, value, header.entries.emplace_back())) return fault;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> MakeSafetensorsHeader(std::string_view path,
                                                  SafetensorsHeader& header) {
  RETURN_IF_ERROR(Lay(path, header.entries));
  std::string text;
  try {
    text = ToJson(header).dump();
  } catch (const OrderedJson::exception& error) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: not UTF-8: %s", path, error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix(kSafetensorsPrefixBytes, '\0');
  for (size_t i = 0; i < prefix.size(); ++i) {
    prefix[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xFF);
  }
  return prefix + text;
}

void SealSafetensorsHeader(uint32_t data_crc32, std::string& bytes) {
  const auto replace = [&bytes](std::string_view key, const std::string& checksum) {
    const size_t place = FindValue(bytes, key, kNoChecksum);
    bytes.replace(place, checksum.size(), checksum);
  };
  replace(kDataChecksum, ChecksumText(data_crc32));
  const std::string_view text = std::string_view(bytes).substr(kSafetensorsPrefixBytes);
  replace(kHeaderChecksum, *HeaderChecksum(text, kNoChecksum));
}

}  // namespace neap
