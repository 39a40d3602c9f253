// The examples in the headers of core/checkpoint/, which must compile. See
// scripts/check_examples.py.
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/checkpoint/model_description.h"
#include "neap/core/checkpoint/safetensors.h"
#include "neap/core/run/session.h"

namespace neap::header_examples::checkpoint {

// core/checkpoint/safetensors.h
absl::Status WriteTensors(const std::string& path, absl::Span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(SafetensorsWriter writer,
                   SafetensorsWriter::Create(path, {{"fc.weight", "F32", {10, 64}}}));
  RETURN_IF_ERROR(writer.Append("fc.weight", bytes));
  RETURN_IF_ERROR(writer.Commit());
  return absl::OkStatus();
}

absl::Status ReadTensors(const std::string& path, absl::Span<std::byte> bytes) {
  ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(path));
  RETURN_IF_ERROR(reader.CheckData());
  ASSIGN_OR_RETURN(SafetensorsEntry weight, reader.Find("fc.weight"));
  RETURN_IF_ERROR(reader.Read(weight, bytes));
  return absl::OkStatus();
}

// core/checkpoint/checkpoint.h
absl::Status ClearBias(const Program& program, Session& session) {
  ASSIGN_OR_RETURN(NamedValues weights, ReadWeights("weights.safetensors", program));
  weights["fc.bias"].assign(10, 0.0F);
  RETURN_IF_ERROR(session.LoadWeights(weights));
  return absl::OkStatus();
}

// core/checkpoint/model_description.h
absl::StatusOr<ModelDescription> NameClasses(Session& session) {
  session.SetMetadata(ToMetadata({.net = "resnet20", .classes = {"ant", "bee"}}));
  RETURN_IF_ERROR(session.Save("run.safetensors"));
  ASSIGN_OR_RETURN(const ModelDescription model, ReadModelDescription("run.safetensors"));
  return model;
}

}  // namespace neap::header_examples::checkpoint
