#include "apps/train/report/event_file.h"

#include <boost/crc.hpp>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace neap::apps {
namespace {

// The types of fields in the encoding of Protocol Buffers.
enum class Wire : uint8_t { kVarint = 0, k8Bytes = 1, kText = 2, k4Bytes = 5 };

// The bytes of a number, the lowest first, as on every machine that neap runs on.
template <typename T>
std::string BytesOf(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7F));
  return bytes + static_cast<char>(value);
}

std::string Key(uint64_t field, Wire wire) {
  return Varint(field << 3 | static_cast<uint64_t>(wire));
}

std::string TextField(uint64_t field, const std::string& text) {
  return absl::StrCat(Key(field, Wire::kText), Varint(text.size()), text);
}

std::string MaskedCrc(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;  // CRC-32C
  crc.process_bytes(bytes.data(), bytes.size());
  const uint32_t value = crc.checksum();
  return BytesOf(((value >> 15) | (value << 17)) + 0xA282EAD8U);
}

}  // namespace

std::string EventVersion() { return TextField(3, "brain.Event:2"); }

std::string EventScalars(int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    absl::StrAppend(&summary,
                    TextField(1, absl::StrCat(TextField(1, scalar.tag), Key(2, Wire::k4Bytes),
                                              BytesOf(scalar.value))));
  }
  return absl::StrCat(Key(2, Wire::kVarint), Varint(static_cast<uint64_t>(step)),
                      TextField(5, summary));
}

std::string EventRecord(double unix_seconds, const std::string& fields) {
  const std::string event = absl::StrCat(Key(1, Wire::k8Bytes), BytesOf(unix_seconds), fields);
  const std::string size = BytesOf(uint64_t{event.size()});
  return absl::StrCat(size, MaskedCrc(size), event, MaskedCrc(event));
}

}  // namespace neap::apps
