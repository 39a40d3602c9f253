#include "neap/nets/onnx/axes/arrangement.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace neap::nets {
namespace {

constexpr int kBatchAxis = 0;

bool IsBatch(const Factor& factor) { return factor.axis == kBatchAxis; }

// The whole axis of a layer. Axes of 1 have no factors, but for N.
Factors Whole(const std::vector<int64_t>& layer, int axis) {
  const int64_t extent = layer[static_cast<size_t>(axis)];
  if (extent == 1 && axis != kBatchAxis) return {};
  return {{.axis = axis, .extent = extent, .stride = 1}};
}

void Append(const Factors& more, Factors& factors) {
  factors.insert(factors.end(), more.begin(), more.end());
}

Factors All(const std::vector<Factors>& axes) {
  Factors all;
  for (const Factors& axis : axes) Append(axis, all);
  return all;
}

Factors WithoutBatch(Factors factors) {
  std::erase_if(factors, IsBatch);
  return factors;
}

std::vector<Factors> EachJoined(std::vector<Factors> axes) {
  for (Factors& axis : axes) axis = Joined(axis);
  return axes;
}

// The factors in the order in which the layer has them.
Factors InLayersOrder(Factors factors) {
  std::sort(factors.begin(), factors.end(), [](const Factor& a, const Factor& b) {
    return a.axis != b.axis ? a.axis < b.axis : a.stride > b.stride;
  });
  return factors;
}

// Takes an axis of `extent` from the front of the factors; absent if they are not divisible so.
std::optional<Factors> Take(int64_t extent, Factors& from) {
  Factors taken;
  const bool has_lone_batch = !from.empty() && IsBatch(from[0]) && from[0].extent == 1;
  if (has_lone_batch) {
    taken.push_back(from[0]);
    from.erase(from.begin());
  }
  while (extent > 1) {
    if (from.empty()) return std::nullopt;
    Factor& next = from[0];
    if (extent % next.extent == 0) {
      extent /= next.extent;
      taken.push_back(next);
      from.erase(from.begin());
      continue;
    }
    if (IsBatch(next) || next.extent % extent != 0) return std::nullopt;
    next.extent /= extent;
    taken.push_back({next.axis, extent, next.stride * next.extent});
    return taken;
  }
  return taken;
}

// Places along the axes of a tensor, as runs of factors that stay behind each other both in the
// layer's order and in the wanted one.
struct Runs {
  std::vector<Factors> in_layer;
  std::vector<size_t> order;  // in which they are wanted
};

Runs RunsOf(const Factors& source, const Factors& wanted) {
  Runs runs;
  std::vector<size_t> run_of_source(source.size());
  const auto place = [&](const Factor& factor) {
    return static_cast<size_t>(std::find(source.begin(), source.end(), factor) - source.begin());
  };
  std::vector<bool> begins(source.size(), false);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool follows = i > 0 && place(wanted[i]) == place(wanted[i - 1]) + 1;
    if (!follows) begins[place(wanted[i])] = true;
  }
  for (size_t i = 0; i < source.size(); ++i) {
    if (begins[i]) runs.in_layer.emplace_back();
    runs.in_layer.back().push_back(source[i]);
    run_of_source[i] = runs.in_layer.size() - 1;
  }
  for (const Factor& factor : wanted) {
    const size_t run = run_of_source[place(factor)];
    if (runs.order.empty() || runs.order.back() != run) runs.order.push_back(run);
  }
  return runs;
}

// Those of C and the spatial axes, of which there is at least one.
std::vector<int64_t> ExtentsOf(const std::vector<Factors>& axes) {
  std::vector<int64_t> extents;
  for (const Factors& axis : axes) extents.push_back(ExtentOf(axis));
  if (extents.size() < 2) extents.resize(2, 1);
  return extents;
}

// The factor in the parts that end where factors of `by` do.
Factors Divided(Factor factor, const Factors& by) {
  std::vector<int64_t> ends;
  for (const Factor& other : by) {
    if (other.axis != factor.axis) continue;
    ends.push_back(other.stride);
    ends.push_back(other.stride * other.extent);
  }
  std::sort(ends.rbegin(), ends.rend());
  Factors parts;
  for (const int64_t end : ends) {
    const int64_t last = factor.stride * factor.extent;
    const bool is_within = end > factor.stride && end < last;
    if (!is_within || end % factor.stride != 0 || last % end != 0) continue;
    parts.push_back({factor.axis, last / end, end});
    factor.extent = end / factor.stride;
  }
  parts.push_back(factor);
  return parts;
}

std::vector<Factors> Divided(const std::vector<Factors>& axes, const Factors& by) {
  std::vector<Factors> divided;
  for (const Factors& axis : axes) {
    Factors& parts = divided.emplace_back();
    for (const Factor& factor : axis) Append(Divided(factor, by), parts);
  }
  return divided;
}

// The factors of the tensor as those of a layer that has the wanted axes.
std::vector<Factors> RenamedFactors(std::vector<Factors> axes, const std::vector<Factors>& wanted) {
  const auto renamed = [&](const Factor& factor) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto found = std::find(wanted[i].begin(), wanted[i].end(), factor);
      if (found == wanted[i].end()) continue;
      return Factor{static_cast<int>(i) + 1, factor.extent, ExtentOf({found + 1, wanted[i].end()})};
    }
    return factor;  // N
  };
  for (Factors& axis : axes) std::transform(axis.begin(), axis.end(), axis.begin(), renamed);
  return axes;
}

// The order of the layer's axes behind N, from 1, if each of `parts` is one of them.
std::optional<std::vector<int64_t>> OrderOfWholeAxes(const Arrangement& from,
                                                     const std::vector<Factors>& parts) {
  if (parts.size() + 1 != from.layer().size()) return std::nullopt;
  std::vector<int64_t> order;
  for (const Factors& part : parts) {
    if (part.size() != 1 || part[0].extent != from.layer()[static_cast<size_t>(part[0].axis)])
      return std::nullopt;
    order.push_back(part[0].axis);
  }
  return order;
}

}  // namespace

int64_t ExtentOf(const Factors& factors) {
  int64_t product = 1;
  for (const Factor& factor : factors) product *= factor.extent;
  return product;
}

Factors Joined(const Factors& factors) {
  Factors joined;
  for (const Factor& factor : factors) {
    if (factor.extent == 1 && !IsBatch(factor)) continue;
    const bool continues = !joined.empty() && joined.back().axis == factor.axis &&
                           joined.back().stride == factor.stride * factor.extent;
    if (continues) {
      joined.back() = {factor.axis, joined.back().extent * factor.extent, factor.stride};
    } else {
      joined.push_back(factor);
    }
  }
  return joined;
}

Arrangement::Arrangement(std::vector<int64_t> layer, std::vector<Factors> axes)
    : layer_(std::move(layer)), axes_(EachJoined(std::move(axes))) {}

Arrangement Arrangement::OfLayer(std::vector<int64_t> layer) {
  std::vector<Factors> axes;
  for (size_t i = 0; i < layer.size(); ++i) axes.push_back(Whole(layer, static_cast<int>(i)));
  return {std::move(layer), std::move(axes)};
}

Arrangement Arrangement::ChannelsLast(std::vector<int64_t> layer) {
  Arrangement last = OfLayer(std::move(layer));
  if (last.axes_.size() > 2)
    std::rotate(last.axes_.begin() + 1, last.axes_.begin() + 2, last.axes_.end());
  return last;
}

Arrangement Arrangement::Flat(std::vector<int64_t> layer) {
  const Arrangement images = OfLayer(layer);
  const std::vector<Factors>& axes = images.axes_;
  return {std::move(layer), {axes[0], All({axes.begin() + 1, axes.end()})}};
}

std::vector<int64_t> Arrangement::dims() const {
  std::vector<int64_t> dims;
  for (const Factors& axis : axes_) dims.push_back(ExtentOf(axis));
  return dims;
}

bool Arrangement::IsWhole(size_t axis, int of_layer) const {
  return axis < axes_.size() && axes_[axis] == Whole(layer_, of_layer);
}

bool Arrangement::IsImages(size_t axis) const {
  return axis < rank() && axes_[axis].size() == 1 && IsBatch(axes_[axis][0]);
}

bool Arrangement::HasImages(size_t axis) const {
  return axis < rank() && std::any_of(axes_[axis].begin(), axes_[axis].end(), IsBatch);
}

bool Arrangement::IsInOrder() const {
  return Joined(All(axes_)) == Joined(All(OfLayer(layer_).axes_));
}

std::string Arrangement::ToString() const {
  constexpr char kNames[] = {'N', 'C'};
  std::string text;
  for (const Factors& axis : axes_) {
    text += text.empty() ? "[" : " [";
    for (size_t i = 0; i < axis.size(); ++i) {
      const Factor& factor = axis[i];
      const auto of_layer = static_cast<size_t>(factor.axis);
      if (i > 0) text += ", ";
      text += of_layer < 2 ? std::string(1, kNames[of_layer]) : "S" + std::to_string(of_layer - 1);
      if (factor.extent == layer_[of_layer]) continue;
      text += " " + std::to_string(factor.extent) + " of " + std::to_string(layer_[of_layer]);
    }
    text += "]";
  }
  return text;
}

std::optional<Arrangement> Arrangement::Reshaped(const std::vector<int64_t>& dims) const {
  Factors left = All(axes_);
  std::vector<Factors> axes;
  if (std::any_of(dims.begin(), dims.end(), [](int64_t extent) { return extent < 1; }))
    return std::nullopt;
  for (const int64_t extent : dims) {
    std::optional<Factors> axis = Take(extent, left);
    if (!axis.has_value()) return std::nullopt;
    axes.push_back(*std::move(axis));
  }
  if (!left.empty() && (axes.empty() || ExtentOf(left) != 1)) return std::nullopt;
  if (!left.empty()) Append(left, axes.back());
  return Arrangement(layer_, std::move(axes));
}

Arrangement Arrangement::Transposed(const std::vector<int64_t>& order) const {
  std::vector<Factors> axes;
  for (const int64_t axis : order) axes.push_back(axes_[static_cast<size_t>(axis)]);
  return {layer_, std::move(axes)};
}

Arrangement Arrangement::Inserted(size_t axis) const {
  std::vector<Factors> axes = axes_;
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(axis), Factors());
  return {layer_, std::move(axes)};
}

Arrangement Arrangement::Removed(size_t axis) const {
  std::vector<Factors> axes = axes_;
  const Factors batch = axes[axis];  // N of a batch of 1, or nothing
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(axis));
  if (!axes.empty()) {
    Factors& beside = axes[std::min(axis, axes.size() - 1)];
    beside.insert(beside.begin(), batch.begin(), batch.end());
  }
  return {layer_, std::move(axes)};
}

Arrangement Arrangement::WithExtent(size_t axis, int of_layer, int64_t extent) const {
  std::vector<int64_t> layer = layer_;
  layer[static_cast<size_t>(of_layer)] = extent;
  std::vector<Factors> axes = axes_;
  axes[axis] = Whole(layer, of_layer);
  return {std::move(layer), std::move(axes)};
}

Arrangement Renamed(const Arrangement& from, const std::vector<Factors>& wanted,
                    std::vector<int64_t> layer) {
  const std::vector<Factors> axes = Divided(from.axes(), All(wanted));
  return {std::move(layer), RenamedFactors(axes, Divided(wanted, All(axes)))};
}

std::vector<Factors> Isolated(const Arrangement& from, size_t axis) {
  const Factors wanted = WithoutBatch(from.axes()[axis]);
  const Factors source = InLayersOrder(WithoutBatch(All(from.axes())));
  const auto found = std::search(source.begin(), source.end(), wanted.begin(), wanted.end());
  Factors others = source;
  std::erase_if(others, [&](const Factor& factor) {
    return std::find(wanted.begin(), wanted.end(), factor) != wanted.end();
  });
  if (found == source.end()) return {wanted, others};
  const Factors before(source.begin(), found), behind(found + std::ssize(wanted), source.end());
  if (before.empty()) return {wanted, behind};
  return {before, wanted, behind};
}

std::optional<Rearrangement> Rearrange(const Arrangement& from, const std::vector<Factors>& wanted,
                                       size_t max_axes) {
  const Factors source = InLayersOrder(WithoutBatch(All(Divided(from.axes(), All(wanted)))));
  const std::vector<Factors> parts = Divided(wanted, source);
  const Factors target = All(parts);
  if (InLayersOrder(target) != source) return std::nullopt;

  const std::vector<int64_t> own(from.layer().begin() + 1, from.layer().end());
  const std::vector<int64_t> layer = ExtentsOf(parts);
  std::vector<int64_t> with_batch = layer;
  with_batch.insert(with_batch.begin(), from.layer()[0]);
  Rearrangement result;
  result.arrangement = Renamed(from, wanted, std::move(with_batch));
  const Runs runs = RunsOf(source, target);
  if (const auto order = OrderOfWholeAxes(from, parts);
      order.has_value() && runs.order.size() > 1) {
    result.order = *order;
    return result;
  }
  std::vector<int64_t> extents = own;  // of the layer that is there so far
  if (runs.order.size() > 1) {
    if (runs.order.size() > max_axes) return std::nullopt;
    const std::vector<int64_t> divided = ExtentsOf(runs.in_layer);
    if (divided != own) result.divided = divided;
    extents.clear();
    for (const size_t run : runs.order) {
      result.order.push_back(static_cast<int64_t>(run) + 1);
      extents.push_back(divided[run]);
    }
  }
  if (layer != extents) result.layer = layer;
  return result;
}

}  // namespace neap::nets
