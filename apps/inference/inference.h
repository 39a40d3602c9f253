// The setup that `neap eval` and `neap predict` share: a network with weights from a file, and a
// dataset of images.
//
//   InferenceFlags given;
//   given.AddTo(flags);
//   RETURN_IF_ERROR(flags.Parse(args));
//   ASSIGN_OR_RETURN(Inference inference, OpenInference(given, flags));
//   ASSIGN_OR_RETURN(const Prediction prediction, inference.session.Predict(images));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "apps/cli/net_flags.h"
#include "apps/train/bad_files.h"
#include "apps/train/batch_source.h"
#include "apps/train/reading_flags.h"
#include "neap/core/device/device.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/dataset.h"

namespace neap::apps {

struct InferenceFlags {
  NetFlags net;
  std::string weights;  // empty: those that come with the network
  std::string data = "synthetic";
  std::string split = "test";
  ReadingFlags reading;
  std::string device;  // empty: cuda:0 if there is one, else cpu
  bool json = false;
  std::vector<std::string> images;  // files and folders to predict, instead of `data`

  // All but NET. The flags refer to this object, which must not move.
  void AddTo(FlagSet& flags);
};

// *Ownership*: owns all of it; the session borrows the device, and the dataset the list.
struct Inference {
  std::unique_ptr<Device> device;
  std::unique_ptr<BadFiles> bad_files;  // null without --skip-bad
  std::unique_ptr<Dataset> dataset;
  NetInput input;
  Session session;
  std::vector<std::string> classes;  // names of the network's, by number; empty: unknown
  std::vector<std::string> notes;    // sentences that a user may not expect

  // The errors of the files that were skipped.
  absl::StatusOr<std::vector<std::string>> Skipped() const;
};

// Sets `weights` to the file with the weights, and takes the network from it where it is not given
// (apps/cli/saved_model.h). Errors: BadUsage() if there is none, and for a flag of ReadingFlags
// that needs a folder of images; those of the network, the device, the dataset and the file.
absl::StatusOr<Inference> OpenInference(InferenceFlags& flags, const FlagSet& given);

}  // namespace neap::apps
