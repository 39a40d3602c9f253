#include "neap/nets/by_name/check_options.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap::nets {
namespace {

absl::Status CheckRange(const char* option, std::optional<int64_t> value, int64_t limit) {
  if (!value || (*value >= 1 && *value <= limit)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " must be between 1 and ", limit, ", not ", *value));
}

const char* SizesText(const Network& network) {
  if (network.reads_tokens()) return "batch x tokens";
  return network.axes == 3 ? "batch x channels x image x image x image"
                           : "batch x channels x image x image";
}

absl::Status CheckSizes(const Network& network, const Takes& takes, const NetOptions& options) {
  RETURN_IF_ERROR(CheckRange("batch", options.batch, int64_t{1} << 24));
  RETURN_IF_ERROR(CheckRange("image", options.image, int64_t{1} << 16));
  RETURN_IF_ERROR(CheckRange("channels", options.channels, int64_t{1} << 16));
  RETURN_IF_ERROR(CheckRange("classes", options.classes, int64_t{1} << 24));
  const int64_t image = options.image.value_or(network.image);
  if (image % takes.image_unit != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("image must be a multiple of ", takes.image_unit, ", not ", image));
  }
  const auto extent = static_cast<double>(image);
  const int64_t channels = network.reads_tokens() ? 1 : options.channels.value_or(network.channels);
  const double elements = std::pow(extent, network.axes) * static_cast<double>(channels) *
                          static_cast<double>(options.batch.value_or(1));
  if (elements > static_cast<double>(takes.most_elements)) {
    return absl::InvalidArgumentError(
        absl::StrCat(SizesText(network), " is ", elements, ", more than ", takes.most_elements));
  }
  return absl::OkStatus();
}

absl::Status CheckTaken(const Network& network, const char* option, bool taken, bool given) {
  if (!given || taken) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("network '", std::string(network.name), "' takes no ", option));
}

absl::Status CheckDepth(const Network& network, const Takes& takes, std::optional<int64_t> depth) {
  const int64_t step = takes.depths.step;
  const int64_t offset = takes.depths.offset;
  RETURN_IF_ERROR(CheckTaken(network, "depth", step > 0, depth.has_value()));
  if (!depth) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRange("depth", depth, step * takes.most_blocks + offset));
  if (*depth > offset && (*depth - offset) % step == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("depth must be ", step, "n + ", offset, " with n >= 1 (", step + offset, ", ",
                   2 * step + offset, ", ", 3 * step + offset, ", ...), not ", *depth));
}

absl::Status CheckOwnOptions(const Network& network, const Takes& takes,
                             const NetOptions& options) {
  constexpr int64_t kMaxGrowthRate = 512;
  RETURN_IF_ERROR(
      CheckTaken(network, "channels", !network.reads_tokens(), options.channels.has_value()));
  RETURN_IF_ERROR(CheckTaken(network, "blocks", takes.blocks, options.blocks.has_value()));
  RETURN_IF_ERROR(CheckTaken(network, "dropout", takes.dropout, options.dropout.has_value()));
  RETURN_IF_ERROR(CheckTaken(network, "aux-logits", takes.aux_image > 0, options.aux_logits));
  const int64_t image = options.image.value_or(network.image);
  if (options.aux_logits && image < takes.aux_image) {
    return absl::InvalidArgumentError(
        absl::StrCat("image must be at least ", takes.aux_image, " with aux-logits, not ", image));
  }
  RETURN_IF_ERROR(
      CheckTaken(network, "growth-rate", takes.growth_rate, options.growth_rate.has_value()));
  RETURN_IF_ERROR(CheckDepth(network, takes, options.depth));
  if (options.depth && options.blocks) {
    return absl::InvalidArgumentError("depth and blocks exclude each other");
  }
  RETURN_IF_ERROR(CheckRange("growth-rate", options.growth_rate, kMaxGrowthRate));
  for (int64_t blocks : options.blocks.value_or(std::array<int64_t, 4>{1, 1, 1, 1})) {
    RETURN_IF_ERROR(CheckRange("blocks", blocks, takes.most_blocks));
  }
  return absl::OkStatus();
}

absl::Status CheckDType(DType dtype) {
  if (dtype != DType::kUInt8 && dtype != DType::kInt32) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a network is trained in a floating-point dtype, not ", std::string(Name(dtype))));
}

}  // namespace

absl::Status CheckOptions(const Network& network, const Takes& takes, const NetOptions& options) {
  RETURN_IF_ERROR(CheckSizes(network, takes, options));
  RETURN_IF_ERROR(CheckOwnOptions(network, takes, options));
  return CheckDType(options.dtype);
}

}  // namespace neap::nets
