// The kernels that `neap bench conv` times, from a network's convolutions or from a list of shapes.
//
//   const std::vector<ConvKernel> kernels = ConvolutionsOf(program);
//   ASSIGN_OR_RETURN(const std::vector<ConvKernel> listed, DeepBenchConvolutions({.batch = 64}));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"

namespace neap::apps {

// A step of a convolution.
struct ConvKernel {
  std::string name;  // the first layer that has it; in a list of shapes its row, "Vision 20"
  StepSignature signature;
  int64_t count = 1;  // how often the set has it

  // The shapes of input, weight and output: "16x64x27x27 * 192x64x5x5 -> 16x192x27x27".
  std::string Shapes() const;
  double Flops() const;  // of a run; a multiplication and an addition are two
  double Teraflops(double seconds) const { return Flops() / seconds / 1e12; }  // per second
};

// The kernels of each layer in the order forward, backward_data, backward_params. Equal kernels are
// counted, not repeated. A layer that reads the images has no backward_data, which is never run.
std::vector<ConvKernel> ConvolutionsOf(const Program& program);

struct ShapeListOptions {
  std::optional<int64_t> batch = {};  // default: each row's own, times `batch_factor`
  int64_t batch_factor = 1;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Reads a table with the columns of bench/deepbench_conv_train.csv: all three steps of every row.
// Errors: INVALID_ARGUMENT naming the row.
absl::StatusOr<std::vector<ConvKernel>> ReadShapeList(std::string_view csv,
                                                      const ShapeListOptions& options);
// The same for a file. Errors: those of reading it; INVALID_ARGUMENT naming the file and the row,
// or that it has no row.
absl::StatusOr<std::vector<ConvKernel>> ReadShapeFile(const std::string& path,
                                                      const ShapeListOptions& options);
// The kernels of bench/deepbench_conv_train.csv.
absl::StatusOr<std::vector<ConvKernel>> DeepBenchConvolutions(const ShapeListOptions& options);

}  // namespace neap::apps
