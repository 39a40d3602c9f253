#include "apps/bench/conv_set.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "apps/bench/deepbench_shapes.h"  // made of bench/deepbench_conv_train.csv
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/convolution.h"

namespace neap::apps {
namespace {

constexpr char kColumns[] =
    "source,W,H,C_in,N,C_out,kernel_w,kernel_h,pad_w,pad_h,stride_w,stride_h";
constexpr int64_t kMaxExtent = 1 << 20;
constexpr int64_t kMaxListBytes = 1 << 24;

// Merges equal kernels and counts them.
class KernelSet {
 public:
  void Add(std::string name, StepSignature signature) {
    const auto key = std::pair(SignatureText(signature), BatchOf(signature));
    const auto [known, is_new] = positions_.emplace(key, kernels_.size());
    if (is_new) {
      kernels_.push_back({std::move(name), std::move(signature)});
    } else {
      ++kernels_[known->second].count;
    }
  }
  std::vector<ConvKernel> Take() { return std::move(kernels_); }

 private:
  std::vector<ConvKernel> kernels_;
  absl::flat_hash_map<std::pair<std::string, int64_t>, size_t> positions_;
};

const Shape& ShapeOf(const StepSignature& signature, Operand operand, Operand gradient) {
  return signature.Spec(signature.Has(operand) ? operand : gradient).shape;
}

// The numbers of one row, in the order of the columns after the source.
struct ShapeRow {
  int64_t w = 0, h = 0, in_channels = 0, batch = 0, out_channels = 0;
  Extents kernel = 1, padding = 0, stride = 1;
};

absl::StatusOr<ShapeRow> ReadRow(const std::vector<std::string>& fields) {
  std::array<int64_t, 11> n = {};
  if (fields.size() != n.size() + 1) return absl::InvalidArgumentError("12 fields are needed");
  for (size_t i = 0; i < n.size(); ++i) {
    const bool may_be_zero = i == 7 || i == 8;  // padding
    if (!absl::SimpleAtoi(fields[i + 1], &n[i]) || n[i] < (may_be_zero ? 0 : 1) ||
        n[i] > kMaxExtent)
      return absl::InvalidArgumentError(
          absl::StrCat("'", fields[i + 1], "' is not a valid extent"));
  }
  return ShapeRow{n[0], n[1], n[2], n[3], n[4], {n[6], n[5]}, {n[8], n[7]}, {n[10], n[9]}};
}

absl::Status AddRow(const std::vector<std::string>& fields, const std::string& name,
                    const ShapeListOptions& options, KernelSet& set) {
  ASSIGN_OR_RETURN(const ShapeRow row, ReadRow(fields));
  const Layer layer = Convolution{.out_channels = row.out_channels,
                                  .kernel = row.kernel,
                                  .stride = row.stride,
                                  .padding = row.padding,
                                  .bias = false};
  const TensorSpec input = {.shape = {options.batch.value_or(row.batch * options.batch_factor),
                                      row.in_channels, row.h, row.w},
                            .dtype = options.dtype,
                            .layout = options.layout};
  for (Phase phase : {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams}) {
    ASSIGN_OR_RETURN(StepSignature signature, SignatureOf(layer, phase, {input}));
    set.Add(name, std::move(signature));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ConvKernel::Shapes() const {
  return absl::StrCat(ShapeOf(signature, operands::X(), operands::Dx()).ToString(), " * ",
                      ShapeOf(signature, operands::Param(0), operands::ParamGrad(0)).ToString(),
                      " -> ", ShapeOf(signature, operands::Y(), operands::Dy()).ToString());
}

double ConvKernel::Flops() const {
  const Shape& weight = ShapeOf(signature, operands::Param(0), operands::ParamGrad(0));
  const Shape& y = ShapeOf(signature, operands::Y(), operands::Dy());
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(weight.c() * weight.h()) *
         static_cast<double>(weight.w());
}

std::vector<ConvKernel> ConvolutionsOf(const Program& program) {
  std::vector<const Step*> steps;
  for (const Step& step : program.steps) {
    if (IsDivisible(program.Signature(step))) steps.push_back(&step);
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step* a, const Step* b) {
    return std::pair(a->layer, a->phase) < std::pair(b->layer, b->phase);
  });
  KernelSet set;
  for (const Step* step : steps)
    set.Add(program.layers[step->layer.index()].name, program.Signature(*step));
  return set.Take();
}

absl::StatusOr<std::vector<ConvKernel>> ReadShapeList(std::string_view csv,
                                                      const ShapeListOptions& options) {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(csv.data(), csv.size()), '\n', absl::SkipEmpty());
  if (lines.empty() || lines.front() != kColumns)
    return absl::InvalidArgumentError(absl::StrCat("row 0: the columns are not ", kColumns));
  KernelSet set;
  for (size_t row = 1; row < lines.size(); ++row) {
    const std::vector<std::string> fields = absl::StrSplit(lines[row], ',');
    const absl::Status added = AddRow(fields, absl::StrCat(fields.front(), " ", row), options, set);
    if (!added.ok())
      return absl::InvalidArgumentError(absl::StrCat("row ", row, ": ", added.message()));
  }
  return set.Take();
}

absl::StatusOr<std::vector<ConvKernel>> ReadShapeFile(const std::string& path,
                                                      const ShapeListOptions& options) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  if (file.size_bytes() > kMaxListBytes)
    return absl::InvalidArgumentError(absl::StrCat(path, ": too large for a list of shapes"));
  std::string csv(static_cast<size_t>(file.size_bytes()), '\0');
  RETURN_IF_ERROR(
      file.ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(csv.data()), csv.size())));
  absl::StatusOr<std::vector<ConvKernel>> kernels = ReadShapeList(csv, options);
  if (!kernels.ok()) {
    return absl::Status(kernels.status().code(),
                        absl::StrCat(path, ": ", kernels.status().message()));
  }
  if (kernels->empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": has no shapes"));
  return kernels;
}

absl::StatusOr<std::vector<ConvKernel>> DeepBenchConvolutions(const ShapeListOptions& options) {
  return ReadShapeList(kDeepBenchShapes, options);
}

}  // namespace neap::apps
