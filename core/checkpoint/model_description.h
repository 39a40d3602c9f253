// A network's description in its file of weights: which network it is, and its classes' names.
//
// Class numbers are made by whoever reads a dataset: a folder without images of one class numbers
// those after it anew. Names do not change, so a file that has them can be compared with any folder
// (core/vision/match_classes.h).
//
//   session.SetMetadata(ToMetadata({.net = "resnet20", .classes = {"ant", "bee"}}));
//   RETURN_IF_ERROR(session.Save("run.safetensors"));
//   ASSIGN_OR_RETURN(const ModelDescription model, ReadModelDescription("run.safetensors"));
//
// The metadata are "neap.net", "neap.net_flags", and "neap.classes", which is a JSON list. Empty
// ones are left out: other programs and earlier versions wrote none of them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/checkpoint/checkpoint.h"

namespace neap {

struct ModelDescription {
  std::string net;                   // its name, or the path of an ONNX file
  std::vector<std::string> flags;    // of its size, as the command takes them: "--depth", "20"
  std::vector<std::string> classes;  // names, by number
};

// Leaves out a text that is not UTF-8, since JSON cannot hold it, and all names of classes if one
// is not.
FileMetadata ToMetadata(const ModelDescription& model);
// Reads no tensors. Errors: DATA_LOSS, NOT_FOUND.
absl::StatusOr<ModelDescription> ReadModelDescription(const std::string& path);

}  // namespace neap
