#include "neap/nets/onnx/node_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets {

using onnx_schema::Attribute;
using onnx_schema::Node;

namespace {

// The image with the zeros of the Pad that computes it, which its reader does not add itself.
ImageValue WithPadding(ImageValue image) {
  image.padding = {};
  image.unpadded.clear();
  return image;
}

}  // namespace

int64_t ToInteger(double value) {
  constexpr double kLimit = static_cast<double>(int64_t{1} << 62);
  if (std::isnan(value)) return 0;
  return static_cast<int64_t>(std::llround(std::clamp(value, -kLimit, kLimit)));
}

std::vector<int64_t> ToIntegers(const Constant& constant) {
  std::vector<int64_t> integers;
  for (const double value : constant.values) integers.push_back(ToInteger(value));
  return integers;
}

std::string NodeReader::Input(int i) const {
  if (!HasInput(i)) return absl::StrCat("its input ", i);
  return absl::StrCat("its input ", i, " ('", absl::CHexEscape(node_.input(i).substr(0, 200)),
                      "')");
}

const Value* NodeReader::InputValue(int i) const {
  return HasInput(i) ? network_.Find(node_.input(i)) : nullptr;
}

bool NodeReader::HasSecondReader() const {
  for (int i = 1; i < node_.output_size(); ++i) {
    if (network_.ReaderCount(node_.output(i)) > 0) return true;
  }
  return false;
}

bool NodeReader::ReadsConstants() const {
  for (int i = 0; i < input_count(); ++i) {
    if (HasInput(i) && !IsConstant(i)) return false;
  }
  return input_count() > 0;
}

bool NodeReader::IsConstant(int i) const {
  const Value* const value = InputValue(i);
  return value != nullptr &&
         (std::holds_alternative<nets::Constant>(*value) || std::holds_alternative<Stored>(*value));
}

bool NodeReader::ReadsGuess() const {
  for (int i = 0; i < input_count(); ++i) {
    const ImageValue* const image = IfImage(i);
    if (image != nullptr && image->is_guess) return true;
  }
  return false;
}

bool NodeReader::ReadsFormula() const {
  for (int i = 0; i < input_count(); ++i) {
    const ImageValue* const image = IfImage(i);
    if (image != nullptr && image->formula.has_value()) return true;
  }
  return false;
}

bool NodeReader::ReadsUnsupported() const {
  for (int i = 0; i < input_count(); ++i) {
    const Value* const value = InputValue(i);
    if (value != nullptr && std::holds_alternative<Unsupported>(*value)) return true;
  }
  return false;
}

const ImageValue* NodeReader::IfImage(int i) const {
  const Value* const value = InputValue(i);
  return value == nullptr ? nullptr : std::get_if<ImageValue>(value);
}

const IdsValue* NodeReader::IfIds(int i) const {
  const Value* const value = InputValue(i);
  return value == nullptr ? nullptr : std::get_if<IdsValue>(value);
}

std::optional<Stored> NodeReader::IfStored(int i) const {
  const Value* const value = InputValue(i);
  const auto* const stored = value == nullptr ? nullptr : std::get_if<Stored>(value);
  return stored == nullptr ? std::nullopt : std::optional<Stored>(*stored);
}

const NormPart* NodeReader::IfNormPart(int i) const {
  const Value* const value = InputValue(i);
  return value == nullptr ? nullptr : std::get_if<NormPart>(value);
}

absl::StatusOr<ImageValue> NodeReader::AnyImage(int i) const {
  const ImageValue* const image = IfImage(i);
  if (image == nullptr) {
    if (InputValue(i) == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat(Input(i), " is computed by no node before it"));
    return absl::UnimplementedError(absl::StrCat(
        Input(i), IfIds(i) == nullptr ? " is a constant" : " has ids, which only a Gather reads"));
  }
  return *image;
}

const AttentionPart* NodeReader::IfAttentionPart(int i) const {
  const Value* const value = InputValue(i);
  return value == nullptr ? nullptr : std::get_if<AttentionPart>(value);
}

absl::StatusOr<ImageValue> NodeReader::ComputedImage(int i) const {
  ASSIGN_OR_RETURN(ImageValue image, AnyImage(i));
  if (!image.formula.has_value()) return image;
  absl::StatusOr<ImageValue> computed = operators::AsLayers(node_, network_, image);
  if (!computed.ok())
    return absl::UnimplementedError(absl::StrCat(Input(i), " ", computed.status().message()));
  network_.Set(node_.input(i), *computed);  // other nodes read what the layers have made
  return computed;
}

absl::StatusOr<ImageValue> NodeReader::PaddedImage(int i) const {
  ASSIGN_OR_RETURN(ImageValue image, ComputedImage(i));
  if (image.is_image() || image.is_flat()) return image;
  image = WithPadding(std::move(image));
  if (image.rank() == 2) {
    ASSIGN_OR_RETURN(image, InOrder(node_, network_, image));
    image.arrangement = Arrangement::Flat(image.arrangement.layer());
  } else {
    ASSIGN_OR_RETURN(image, AsImage(node_, network_, image));
  }
  network_.Set(node_.input(i), image);  // other nodes read what the layers have made
  return image;
}

absl::StatusOr<ImageValue> NodeReader::FormulaImage(int i) const {
  ASSIGN_OR_RETURN(ImageValue image, AnyImage(i));
  return WithPadding(std::move(image));
}

absl::StatusOr<ImageValue> NodeReader::Image(int i) const {
  ASSIGN_OR_RETURN(ImageValue image, PaddedImage(i));
  return WithPadding(std::move(image));
}

absl::StatusOr<ImageValue> NodeReader::ImageOfAnyLayout(int i) const {
  ASSIGN_OR_RETURN(ImageValue image, ComputedImage(i));
  return WithPadding(std::move(image));
}

absl::StatusOr<std::vector<ImageValue>> NodeReader::AllImages() const {
  std::vector<ImageValue> images;
  for (int i = 0; i < input_count(); ++i) {
    ASSIGN_OR_RETURN(images.emplace_back(), ImageOfAnyLayout(i));
  }
  if (images.empty()) return absl::InvalidArgumentError("it has no input");
  return WithSameAxes(node_, network_, std::move(images));
}

absl::StatusOr<Weight> NodeReader::Tensor(int i, std::string name) const {
  const Value* const value = InputValue(i);
  const auto* const stored = value == nullptr ? nullptr : std::get_if<Stored>(value);
  if (stored != nullptr && stored->repeats > 1) {
    ASSIGN_OR_RETURN(nets::Constant repeated, Constant(i));
    return Weight{std::move(name), std::move(repeated), node_.input(i)};
  }
  if (stored != nullptr) return Weight{std::move(name), *stored, node_.input(i)};
  const auto* const constant = value == nullptr ? nullptr : std::get_if<nets::Constant>(value);
  if (constant != nullptr) return Weight{std::move(name), *constant, node_.input(i)};
  return absl::UnimplementedError(absl::StrCat(Input(i), " is no constant"));
}

absl::StatusOr<Constant> NodeReader::Constant(int i) const {
  const Value* const value = InputValue(i);
  if (value != nullptr) {
    if (const auto* const constant = std::get_if<nets::Constant>(value)) {
      RETURN_IF_ERROR(network_.CountConstant(constant->dims));  // is copied
      return *constant;
    }
    if (const auto* const stored = std::get_if<Stored>(value))
      return network_.ReadConstant(*stored);
  }
  return absl::UnimplementedError(absl::StrCat(Input(i), " is no constant"));
}

absl::StatusOr<Constant> NodeReader::ConstantForImages(int i, const ImageValue& x) const {
  const auto has_images = [&](const std::vector<int64_t>& dims) {
    return dims.size() == x.rank() && x.arrangement.IsImages(0) && dims[0] == x.dims()[0];
  };
  std::optional<Stored> stored = IfStored(i);
  if (stored.has_value() && stored->repeats > 1 && has_images(stored->dims())) {
    stored->repeats = 1;
    return network_.ReadConstant(*stored);
  }
  ASSIGN_OR_RETURN(nets::Constant constant, Constant(i));
  if (!has_images(constant.dims) || !HasSameEntries(constant)) return constant;
  return Taken(constant, 0, {0});
}

absl::StatusOr<double> NodeReader::Scalar(int i, double absent) const {
  if (!HasInput(i)) return absent;
  ASSIGN_OR_RETURN(const nets::Constant constant, Constant(i));
  if (constant.values.size() == 1) return constant.values[0];
  return absl::UnimplementedError(
      absl::StrCat(Input(i), " has ", constant.values.size(), " values; one is needed"));
}

absl::StatusOr<std::pair<double, double>> NodeReader::Bounds() {
  constexpr double kMax = std::numeric_limits<float>::max();
  const double lowest = Float("min", -std::numeric_limits<float>::max());  // before opset 11
  const double highest = Float("max", std::numeric_limits<float>::max());
  ASSIGN_OR_RETURN(const double low, Scalar(1, lowest));
  ASSIGN_OR_RETURN(const double high, Scalar(2, highest));
  return std::pair(std::max(low, -kMax), std::min(high, kMax));
}

absl::StatusOr<Constant> NodeReader::ConstantAttribute(std::string_view name,
                                                       nets::Constant absent) {
  const onnx_schema::Tensor* const tensor = TensorAttribute(name);
  if (tensor == nullptr) return absent;
  return network_.ReadConstant(Stored{.tensor = tensor});
}

bool NodeReader::HasAttribute(std::string_view name) const {
  return std::any_of(node_.attribute().begin(), node_.attribute().end(),
                     [&](const Attribute& attribute) { return attribute.name() == name; });
}

const Attribute* NodeReader::Ask(std::string_view name, Attribute::Type type) {
  asked_.insert(std::string(name));
  for (const Attribute& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.type() == type) return &attribute;
    wrong_attribute_ = absl::InvalidArgumentError(absl::StrCat(
        "attribute '", std::string(name), "' has a type that the operator does not ", "have"));
  }
  return nullptr;
}

int64_t NodeReader::Int(std::string_view name, int64_t absent) {
  const Attribute* const attribute = Ask(name, Attribute::INT);
  return attribute == nullptr ? absent : attribute->i();
}
float NodeReader::Float(std::string_view name, float absent) {
  const Attribute* const attribute = Ask(name, Attribute::FLOAT);
  return attribute == nullptr ? absent : attribute->f();
}
std::string NodeReader::String(std::string_view name, std::string_view absent) {
  const Attribute* const attribute = Ask(name, Attribute::STRING);
  return attribute == nullptr ? std::string(absent) : attribute->s();
}
std::vector<int64_t> NodeReader::Ints(std::string_view name, std::vector<int64_t> absent) {
  const Attribute* const attribute = Ask(name, Attribute::INTS);
  if (attribute == nullptr) return absent;
  return {attribute->ints().begin(), attribute->ints().end()};
}
std::vector<float> NodeReader::Floats(std::string_view name, std::vector<float> absent) {
  const Attribute* const attribute = Ask(name, Attribute::FLOATS);
  if (attribute == nullptr) return absent;
  return {attribute->floats().begin(), attribute->floats().end()};
}
const onnx_schema::Tensor* NodeReader::TensorAttribute(std::string_view name) {
  const Attribute* const attribute = Ask(name, Attribute::TENSOR);
  return attribute == nullptr ? nullptr : &attribute->t();
}

absl::Status NodeReader::Unasked() const {
  for (const Attribute& attribute : node_.attribute()) {
    if (asked_.contains(attribute.name())) continue;
    return absl::UnimplementedError(
        absl::StrCat("attribute '", absl::CHexEscape(attribute.name().substr(0, 200)), "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> NodeReader::IntsOrInput(std::string_view name, int i) {
  std::vector<int64_t> ints = Ints(name, {});
  if (!HasInput(i)) return ints;
  ASSIGN_OR_RETURN(const nets::Constant constant, Constant(i));
  return ToIntegers(constant);
}

}  // namespace neap::nets
