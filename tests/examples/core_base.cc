// The examples in the headers of core/base/, which must compile. See scripts/check_examples.py.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "neap/core/base/byte_gate.h"
#include "neap/core/base/crc32.h"
#include "neap/core/base/file.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/gzip.h"
#include "neap/core/base/json_fields.h"
#include "neap/core/base/parallel.h"
#include "neap/core/base/philox.h"
#include "neap/core/base/shared_library.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/run/session.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap::header_examples::base {

// core/base/byte_gate.h
void ReadInTurns(int64_t volume_bytes) {
  ByteGate gate(int64_t{4} << 30);
  const ByteGate::Pass pass = gate.Enter(volume_bytes);  // waits while too much is in use
}

// core/base/crc32.h
void Checksum(absl::Span<const std::byte> first, absl::Span<const std::byte> second,
              uint32_t crc_of_first, uint32_t crc_of_second, int64_t size_of_second) {
  Crc32 crc;
  crc.Add(first);
  crc.Add(second);
  crc.value();                                                       // zlib.crc32(first + second)
  Crc32::Concatenated(crc_of_first, crc_of_second, size_of_second);  // the same
}

// core/base/file.h
absl::Status WriteFile(absl::Span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create("model.safetensors"));
  RETURN_IF_ERROR(file.WriteAt(0, bytes));
  RETURN_IF_ERROR(file.Commit());  // until this returns, readers see the old file, if any
  return absl::OkStatus();
}

// core/base/float16.h
float Rounded() {
  const Bf16 stored(0.1F);
  const float value(stored);  // 0.100097656
  return value;
}

// core/base/gzip.h
absl::Status Decompress() {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open("train-labels-idx1-ubyte.gz"));
  ASSIGN_OR_RETURN(const std::vector<std::byte> header, ReadGzip(file, /*most_bytes=*/8));
  return absl::OkStatus();
}

// core/base/json_fields.h
absl::Status ReadFields(std::string_view text) {
  ASSIGN_OR_RETURN(const JsonFields::Json json, ParseJson(text, "plan"));
  JsonFields fields(json.at("tensors").at(3), "plan", "tensors[3]");
  const int64_t bytes = fields.Integer("bytes");
  RETURN_IF_ERROR(fields.Finish());  // "plan: tensors[3]: has an unknown field \"size\""
  return absl::OkStatus();
}

// core/base/parallel.h
struct Scratch {};
void ParallelLoops(size_t images, void (*Convert)(size_t image), size_t orders,
                   std::vector<int>& found, int (*Search)(size_t order, Scratch& scratch)) {
  InParallel(images, /*most_threads=*/8, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) Convert(i);  // all take equally long
  });
  EachInParallel(orders, /*most_threads=*/8, [&] {  // some take longer than others
    return [&, scratch = Scratch()](size_t i) mutable { found[i] = Search(i, scratch); };
  });
}

// core/base/philox.h
void RandomNumber(uint64_t seed, uint64_t layer_seed, uint64_t i) {
  PhiloxBlock r = Philox({.key = seed, .stream = layer_seed, .position = i / 4});
  float u = ToUnitFloat(r[i % 4]);  // in [0, 1)
}

// core/base/status_macros.h
absl::Status EarlyReturn(Session& session) {
  ASSIGN_OR_RETURN(auto device, CpuDevice::Open());
  RETURN_IF_ERROR(session.Save("model.safetensors"));
  return absl::OkStatus();
}

absl::Status SharedLibraryExample() {
  ASSIGN_OR_RETURN(SharedLibrary math, SharedLibrary::Open("libm.so.6", "no libm"));
  double (*cube_root)(double) = nullptr;
  math.Find("cbrt", cube_root);
  RETURN_IF_ERROR(math.FoundAll());
  return absl::OkStatus();
}

// core/base/without_throwing.h
absl::Status RunKernel(absl::Status (*run)(int step), int step) {
  const absl::Status status = WithoutThrowing("kernel", [&] { return run(step); });
  return status;
}

}  // namespace neap::header_examples::base
