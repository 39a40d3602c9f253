// The items of `neap paper`: the tables and figures of the four papers that neap's mechanisms come
// from, each with a function that makes neap's side of it.
//
//   SuperNeurons  Wang et al., PPoPP 2018      sn-...
//   u-cuDNN       Oyama et al., CLUSTER 2018   uc-...
//   moDNN         Chen et al., TPDS 2019       modnn-...
//   cuDNN         Chetlur et al., 2014         cudnn-...
//
// A new item is a function and a row of its paper's list:
//
//   {.name = "sn-table1", .paper = "SuperNeurons", .place = "Table 1",
//    .shows = "extra forwards and peak of recomputation", .make = Table1},
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/paper/paper_report.h"
#include "neap/core/device/device.h"

namespace neap::apps {

// The options of the command line.
struct PaperRun {
  // For tests: fewer networks and points, smaller batches. The report says which.
  bool small = false;
  std::string device;    // as given; empty: the paper's GPU, for what is planned
  std::string database;  // as given
  int64_t steps = 30;    // training steps of each measured speed
};

// A number from a paper to compare with; absent in the small form, whose networks, batches and
// budgets are not those of the paper.
template <typename T>
std::optional<double> Published(const PaperRun& run, std::optional<T> value) {
  if (run.small || !value.has_value()) return std::nullopt;
  return static_cast<double>(*value);
}
inline std::optional<double> Published(const PaperRun& run, double value) {
  return Published(run, std::optional<double>(value));
}

// The input that an item cannot do without.
enum class PaperNeeds : uint8_t {
  kNothing,  // it is planned; with --device for that device
  kTimes,    // times of convolutions: measured on --device, or from --database
  kDevice,   // it is measured on --device
};

struct PaperItem {
  std::string name;
  std::string paper;
  std::string place;  // "Table 1"
  std::string shows;  // in the paper
  PaperNeeds needs = PaperNeeds::kNothing;
  absl::StatusOr<PaperReport> (*make)(const PaperRun& run) = nullptr;

  // "sn-table1: SuperNeurons, Table 1: extra forwards and peak of recomputation"
  std::string Heading() const;
};

// The items of each paper, in the order of its pages.
std::vector<PaperItem> SuperNeuronsItems();
std::vector<PaperItem> MicroBatchItems();  // u-cuDNN
std::vector<PaperItem> ModnnItems();
std::vector<PaperItem> CudnnItems();

// All of them.
std::vector<PaperItem> PaperItems();

}  // namespace neap::apps
