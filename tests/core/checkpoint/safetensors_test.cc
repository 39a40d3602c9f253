#include "neap/core/checkpoint/safetensors.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/core/checkpoint/safetensors_files.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

TEST_CASE(
    "files of PyTorch are named as such, however small, and no safetensors are taken for them") {
  const ScratchDirectory directory;
  const std::string path = directory.File("model.pt");
  const std::vector<std::string> pickles = {
      {"\x80\x04}\x94.", 5},                                 // pickle.dumps({})
      {"\x80\x02}q\x00.", 6},                                // protocol 2
      {"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01K\x01s.", 16},  // {"a": 1}
      {"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01"
       "a\x94.",
       16},                                         // a frame of 5 bytes
      {"PK\x03\x04\x00\x00\x08\x08\x00\x00", 10}};  // torch.save
  for (const std::string& bytes : pickles) {
    WriteText(path, bytes);
    const absl::Status status = SafetensorsReader::Open(path).status();
    CHECK(absl::IsDataLoss(status));
    CHECK(absl::StrContains(status.message(), path));
    CHECK(absl::StrContains(status.message(), "a PyTorch file"));
  }
  // A header of 0x0280 bytes.
  std::string text = "{\"__metadata__\":{\"format\":\"pt\"}}";
  text.resize(0x280, ' ');
  WriteText(path, std::string("\x80\x02\x00\x00\x00\x00\x00\x00", 8) + text);
  CHECK(SafetensorsReader::Open(path).ok());
}

TEST_CASE("what is written is read back: names, shapes, bytes, metadata") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m.safetensors");
  REQUIRE(Write(path,
                {{{"conv.weight", "F32", {2, 3}}, std::string(24, 'w')},
                 {{"step", "I64", {}}, "12345678"},
                 {{"empty", "F16", {0, 5}}, ""},
                 {{"odd \"name\" \\ \u00e9", "U8", {5}}, "bytes"}},
                {{"step", "7"},
                 {"neap.data_crc32", "not the writer's"},
                 {"quote", "\"neap.header_crc32\":\"00000000\""}})
              .ok());
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  CHECK(reader->entries().size() == 4);
  CHECK(reader->metadata() ==
        SafetensorsMetadata{{"step", "7"}, {"quote", "\"neap.header_crc32\":\"00000000\""}});
  CHECK(reader->Find("conv.weight")->shape == std::vector<int64_t>{2, 3});
  CHECK(reader->Find("step")->shape.empty());
  CHECK(reader->Find("step")->dtype == "I64");
  CHECK(*ReadTensor(*reader, "conv.weight") == std::string(24, 'w'));
  CHECK(*ReadTensor(*reader, "step") == "12345678");
  CHECK(ReadTensor(*reader, "empty")->empty());
  CHECK(*ReadTensor(*reader, "odd \"name\" \\ \u00e9") == "bytes");
  CHECK(absl::IsNotFound(reader->Find("conv.bias").status()));
}

TEST_CASE("a tiny file has exactly these bytes") {
  const ScratchDirectory directory;
  const std::string path = directory.File("tiny");
  REQUIRE(Write(path, kTiny, {{"step", "7"}}).ok());
  // zlib.crc32(b"1234xyz")
  const std::string header = R"({"__metadata__":{"neap.header_crc32":"CHECKSUM",)"
                             R"("neap.data_crc32":"57cd19eb","step":"7"},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}}      )";
  REQUIRE(header.size() % 8 == 0);
  std::string bytes = ReadText(path);
  const size_t checksum = 8 + header.find("CHECKSUM");
  CHECK(bytes.substr(checksum, 8).find_first_not_of("0123456789abcdef") == std::string::npos);
  bytes.replace(checksum, 8, "CHECKSUM");
  CHECK(bytes == FileOf(header, "1234xyz"));
}

TEST_CASE("every tensor starts at a multiple of its element's size") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  REQUIRE(Write(path, {{{"a", "U8", {1}}, "a"},
                       {{"b", "I64", {1}}, "bbbbbbbb"},
                       {{"c", "F16", {1}}, "cc"},
                       {{"d", "F32", {1}}, "dddd"}})
              .ok());
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  for (const SafetensorsEntry& entry : reader->entries()) {
    CHECK(entry.offset % SafetensorsElementBytes(entry.dtype) == 0);
  }
}

TEST_CASE("a tensor can be written piece by piece, interleaved with others") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  auto writer = SafetensorsWriter::Create(path, {{"a", "U8", {4}}, {"b", "U8", {2}}});
  REQUIRE(writer.ok());
  REQUIRE(writer->Append("a", Bytes("01")).ok());
  REQUIRE(writer->Append("b", Bytes("x")).ok());
  REQUIRE(writer->Append("a", Bytes("23")).ok());
  CHECK(absl::IsInvalidArgument(writer->Append("a", Bytes("4"))));
  CHECK(absl::IsInvalidArgument(writer->Append("c", Bytes("4"))));
  CHECK(absl::IsFailedPrecondition(writer->Commit()));  // b lacks a byte
  REQUIRE(writer->Append("b", Bytes("y")).ok());
  REQUIRE(writer->Commit().ok());
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  CHECK(*ReadTensor(*reader, "a") == "0123");
  CHECK(*ReadTensor(*reader, "b") == "xy");
}

TEST_CASE("invalid entries are refused before a file is created") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::vector<std::vector<SafetensorsEntry>> bad = {
      {{"a", "F32", {1}}, {"a", "F32", {1}}},
      {{"__metadata__", "F32", {1}}},
      {{"a", "F99", {1}}},
      {{"a", "F32", {-1}}},
      {{"a", "F32", {kHuge, 8}}},
      {{"a", "U8", {kHuge}}, {"b", "U8", {kHuge}}},
      {{"\xff", "F32", {1}}}};
  for (const std::vector<SafetensorsEntry>& entries : bad) {
    CHECK(absl::IsInvalidArgument(SafetensorsWriter::Create(path, entries).status()));
  }
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("a file of another program is read, without a checksum and in any order") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  WriteText(path, FileOf(R"({"b":{"data_offsets":[2,6],"shape":[1],"dtype":"F32"},)"
                         R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}  )",
                         "ab1234"));
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  CHECK(*ReadTensor(*reader, "a") == "ab");
  CHECK(*ReadTensor(*reader, "b") == "1234");
  CHECK(reader->metadata().empty());
  CHECK(reader->CheckData().ok());
}

TEST_CASE("faulty headers are DATA_LOSS naming file and byte") {
  const ScratchDirectory directory;
  const std::string path = directory.File("m");
  const std::string good = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::pair<std::string, std::string> cases[] = {
      {FileOf("", ""), "not valid JSON"},
      {FileOf("[1]", ""), "not a JSON object"},
      {FileOf(" {}", ""), "not a JSON object"},
      {FileOf("{\"a\":", ""), "not valid JSON"},
      {FileOf("{\"a\xff\":1}", ""), "not valid JSON"},
      {FileOf(std::string(100'000, '['), ""), "not valid JSON"},
      {FileOf(R"({"a":1})", ""), "'a': no object"},
      {FileOf(R"({"a":{}})", ""), "'a': no dtype"},
      {FileOf(R"({"a":{"dtype":"U9","shape":[],"data_offsets":[0,1]}})", "x"), "unknown dtype"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x"), "no valid shape"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "x"), "no valid shape"},
      {FileOf(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "x"), "no valid shape"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "x"), "no valid data_off"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "x"), "no valid data_of"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})", "x"),
       "no valid data_offsets"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}})", "xy"), "do not make"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
       "do not make"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy"), "hole before"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
              R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
              "xyz"),
       "overlap before tensor 'b'"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
              R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
              "xy"),
       "'a': defined twice"},
      {FileOf(R"({"__metadata__":7})", ""), "'__metadata__': no object"},
      {FileOf(R"({"__metadata__":{"k":7}})", ""), "metadata that is not a string"},
      {FileOf(R"({"__metadata__":{"neap.header_crc32":"00000000"}})", ""), "checksum is wrong"},
      {FileOf(R"({"__metadata__":{"neap.data_crc32":"0000000"}})", ""), "not a checksum"},
      {FileOf(R"({"__metadata__":{"neap.data_crc32":"0000000G"}})", ""), "not a checksum"},
      {FileOf(good, "x"), "ends before the end of tensor 'a', whose data_offsets end at 2 of 1"},
      // Sums with these offsets would overflow.
      {FileOf(R"({"a":{"dtype":"U8","shape":[9223372036854775807],)"
              R"("data_offsets":[0,9223372036854775807]}})",
              "x"),
       "'a', whose data_offsets end at 9223372036854775807 of 1 bytes"},
      {FileOf(R"({"a":{"dtype":"U8","shape":[0],)"
              R"("data_offsets":[9223372036854775807,9223372036854775807]}})",
              "x"),
       "'a', whose data_offsets end at 9223372036854775807 of 1 bytes"},
      {FileOf(good, "xyz"), "1 bytes after the last tensor"},
      {FileOf(good, "xy").substr(0, 30), "ends within the header"},
      {std::string(8, '\xff'), "this is no safetensors file"},
      {"", "ends within the header's length"},
  };
  for (const auto& [bytes, expected] : cases) {
    const std::string complaint = expected;
    CAPTURE(complaint);
    WriteText(path, bytes);
    const absl::Status status = SafetensorsReader::Open(path).status();
    CAPTURE(std::string(status.message()));
    CHECK(absl::IsDataLoss(status));
    CHECK(status.message().find(path + ": byte ") == 0);
    CHECK(status.message().find(complaint) != absl::string_view::npos);
  }
}

}  // namespace
}  // namespace neap
