#include "neap/core/base/file.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/checkpoint/safetensors.h"
#include "neap/core/program/passes.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::testing {

std::vector<std::string> FuzzSeeds() {
  const ScratchDirectory directory;
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  Session session = MakeSession(*device, {});
  const std::string checkpoint = directory.File("checkpoint"), weights = directory.File("weights");
  if (!session.Save(checkpoint).ok() || !session.SaveWeights(weights).ok())
    FailFuzzed("no seeds can be written");
  return {ReadText(checkpoint), ReadText(weights)};
}

void ReadFuzzed(std::string_view bytes) {
  static const ScratchDirectory directory;
  static const Program program = Lower(SmallNet(), {}, OpenCpu()->description()).value();
  const std::string path = directory.File("file");
  WriteText(path, std::string(bytes));
  ReadTrainingPosition(path).status().IgnoreError();
  LoadCheckpoint(path, program).status().IgnoreError();
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path);
  if (!reader.ok()) return;
  reader->CheckData().IgnoreError();
  for (const SafetensorsEntry& entry : reader->entries()) {
    std::vector<std::byte> data(static_cast<size_t>(entry.size_bytes));
    if (!reader->Read(entry, absl::MakeSpan(data)).ok())
      FailFuzzed("a tensor of an accepted file cannot be read");
  }
}

}  // namespace neap::testing
