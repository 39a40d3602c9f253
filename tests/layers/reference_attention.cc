#include "tests/layers/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "neap/layers/attention/attention.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// A matrix for each head of a sequence, of which an image has several: {rows, columns} of each.
struct Matrices {
  size_t images, heads, rows, columns;
  Vector values = Vector(images * heads * rows * columns);

  double& At(size_t n, size_t h, size_t row, size_t column) {
    return values[((n * heads + h) * rows + row) * columns + column];
  }
};

class AttentionReference {
 public:
  AttentionReference(const StepSignature& signature, const Values& given)
      : signature_(signature),
        given_(given),
        layer_(*signature.layer.As<Attention>()),
        is_packed_(!signature.Has(X(2))),
        heads_(static_cast<size_t>(layer_.heads)),
        kv_heads_(static_cast<size_t>(layer_.kv_heads == 0 ? layer_.heads : layer_.kv_heads)) {
    const Shape& x = signature.Spec(X()).shape;
    for (int axis = 0; layer_.axes != 0 && axis < x.spatial_axes() - layer_.axes; ++axis)
      sets_ *= static_cast<size_t>(x.spatial()[static_cast<size_t>(axis)]);
    const auto channels = static_cast<size_t>(x.c());
    const size_t dims = channels / (is_packed_ ? heads_ + 2 * kv_heads_ : heads_);
    scale_ = layer_.scale != 0 ? static_cast<double>(layer_.scale)
                               : 1 / std::sqrt(static_cast<double>(dims));
    const size_t value_dims =
        is_packed_ ? dims : static_cast<size_t>(signature.Spec(X(2)).shape.c()) / kv_heads_;
    query_ = Rotated(Part(0, 0, heads_, dims), 1);
    key_ = is_packed_ ? Part(0, heads_ * dims, kv_heads_, dims) : Part(1, 0, kv_heads_, dims);
    key_ = Rotated(key_, 1);
    value_ = is_packed_ ? Part(0, (heads_ + kv_heads_) * dims, kv_heads_, dims)
                        : Part(2, 0, kv_heads_, value_dims);
  }

  Values Forward() {
    Matrices y = {query_.images, heads_, query_.rows, value_.columns};
    Matrices lse = {query_.images, heads_, query_.rows, 1};
    Matrices s = Scores();
    ForEachRow([&](size_t n, size_t h, size_t i) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (size_t j = 0; j < key_.rows; ++j) largest = std::max(largest, s.At(n, h, i, j));
      for (size_t j = 0; j < key_.rows; ++j) sum += std::exp(s.At(n, h, i, j) - largest);
      lse.At(n, h, i, 0) = largest + std::log(sum);
      for (size_t j = 0; j < key_.rows; ++j) {
        const double p = std::exp(s.At(n, h, i, j) - largest) / sum;
        for (size_t d = 0; d < value_.columns; ++d)
          y.At(n, h, i, d) += p * value_.At(n, Shared(h), j, d);
      }
    });
    Values result = {{Y(), Channels(y)}};
    if (signature_.Has(Saved(0))) result[Saved(0)] = lse.values;
    return result;
  }

  Values Backward() {
    Matrices s = Scores(), ds = {query_.images, heads_, query_.rows, key_.rows};
    Matrices y = HeadsOf(given_.at(Y()), 0, heads_, value_.columns, query_.rows);
    Matrices dy = HeadsOf(given_.at(Dy()), 0, heads_, value_.columns, query_.rows);
    Matrices dquery = Like(query_), dkey = Like(key_), dvalue = Like(value_);
    ForEachRow([&](size_t n, size_t h, size_t i) {
      const size_t k = Shared(h);
      const double lse = given_.at(Saved(0))[(n * heads_ + h) * query_.rows + i];
      double mean = 0;
      for (size_t d = 0; d < value_.columns; ++d) mean += y.At(n, h, i, d) * dy.At(n, h, i, d);
      for (size_t j = 0; j < key_.rows; ++j) {
        const double p = std::exp(s.At(n, h, i, j) - lse);
        double dp = 0;
        for (size_t d = 0; d < value_.columns; ++d) {
          dp += dy.At(n, h, i, d) * value_.At(n, k, j, d);
          dvalue.At(n, k, j, d) += p * dy.At(n, h, i, d);
        }
        const double gradient = p * (dp - mean);
        ds.At(n, h, i, j) = gradient;
        for (size_t d = 0; d < key_.columns; ++d) {
          dquery.At(n, h, i, d) += scale_ * gradient * key_.At(n, k, j, d);
          dkey.At(n, k, j, d) += scale_ * gradient * query_.At(n, h, i, d);
        }
      }
    });
    dquery = Rotated(dquery, -1);
    dkey = Rotated(dkey, -1);
    Values result;
    if (is_packed_) {
      result[Dx(0)] = Packed({Channels(dquery), Channels(dkey), Channels(dvalue)});
    } else {
      result = {{Dx(0), Channels(dquery)}, {Dx(1), Channels(dkey)}, {Dx(2), Channels(dvalue)}};
    }
    if (layer_.window_bias.has_value()) result[ParamGrad(0)] = SumOverWindows(ds);
    if (layer_.learned_bias) result[ParamGrad(0)] = SumOverImages(ds);
    if (const Operand bias = Dx(is_packed_ ? 1 : 3); signature_.Has(bias))
      result[bias] = BiasGradient(ds, signature_.Spec(bias).shape.c());
    return result;
  }

 private:
  static Matrices Like(const Matrices& m) { return {m.images, m.heads, m.rows, m.columns}; }
  size_t Shared(size_t head) const { return head / (heads_ / kv_heads_); }

  // Heads {N, heads, T, dims} of the channels from `first` on of values {N, C, T}.
  Matrices HeadsOf(const Vector& values, size_t first, size_t heads, size_t dims,
                   size_t positions) const {
    const size_t images = sets_ * static_cast<size_t>(signature_.Spec(X()).shape.n());
    const size_t channels = values.size() / images / positions;
    Matrices m = {images, heads, positions, dims};
    for (size_t i = 0; i < m.values.size(); ++i) {
      const size_t d = i % dims, t = i / dims % positions, h = i / dims / positions % heads;
      const size_t n = i / dims / positions / heads;
      const size_t channel = n / sets_ * channels + first + h * dims + d;
      m.values[i] = values[(channel * sets_ + n % sets_) * positions + t];
    }
    return m;
  }
  Matrices Part(int input, size_t first, size_t heads, size_t dims) const {
    const auto positions = static_cast<size_t>(signature_.Spec(X(input)).shape.positions());
    return HeadsOf(given_.at(X(input)), first, heads, dims, positions / sets_);
  }

  // Values {N, heads * dims, sets, T}.
  Vector Channels(Matrices& m) const {
    Vector values;
    for (size_t n = 0; n < m.images; n += sets_) {
      for (size_t c = 0; c < m.heads * m.columns; ++c) {
        for (size_t t = 0; t < sets_ * m.rows; ++t)
          values.push_back(m.At(n + t / m.rows, c / m.columns, t % m.rows, c % m.columns));
      }
    }
    return values;
  }

  // The tensors behind each other in each image.
  Vector Packed(const std::vector<Vector>& parts) const {
    Vector values;
    const size_t images = query_.images / sets_;
    for (size_t n = 0; n < images; ++n) {
      for (const Vector& part : parts) {
        const auto of_image = static_cast<std::ptrdiff_t>(part.size() / images);
        const auto begin = part.begin() + static_cast<std::ptrdiff_t>(n) * of_image;
        values.insert(values.end(), begin, begin + of_image);
      }
    }
    return values;
  }

  Matrices Rotated(Matrices m, double sign) const {
    const auto rotary = static_cast<size_t>(layer_.rotary_dims);
    Matrices result = m;
    for (size_t n = 0; n < m.images; ++n) {
      for (size_t h = 0; h < m.heads; ++h) {
        for (size_t t = 0; t < m.rows; ++t) {
          for (size_t d = 0; d < rotary / 2; ++d) {
            const double exponent = -2 * static_cast<double>(d) / static_cast<double>(rotary);
            const double angle = sign * static_cast<double>(t) *
                                 std::pow(static_cast<double>(layer_.rotary_base), exponent);
            const double a = m.At(n, h, t, d), b = m.At(n, h, t, d + rotary / 2);
            result.At(n, h, t, d) = a * std::cos(angle) - b * std::sin(angle);
            result.At(n, h, t, d + rotary / 2) = b * std::cos(angle) + a * std::sin(angle);
          }
        }
      }
    }
    return result;
  }

  template <typename Visit>
  void ForEachRow(const Visit& visit) const {
    for (size_t n = 0; n < query_.images; ++n) {
      for (size_t h = 0; h < heads_; ++h) {
        for (size_t i = 0; i < query_.rows; ++i) visit(n, h, i);
      }
    }
  }

  // Of a bias {N, heads, sets, Tq, Tk}.
  size_t BiasRow(size_t n, size_t h, size_t heads) const {
    return (n / sets_ * heads + h % heads) * sets_ + n % sets_;
  }

  // The place along each axis of an element of an array of these extents.
  static std::vector<int64_t> Places(const std::vector<int64_t>& extents, size_t number) {
    std::vector<int64_t> places(extents.size());
    auto rest = static_cast<int64_t>(number);
    for (size_t axis = extents.size(); axis-- > 0; rest /= extents[axis])
      places[axis] = rest % extents[axis];
    return places;
  }

  // Of a window's bias: the row of the table, and what hides positions of other regions from each
  // other.
  std::pair<size_t, double> OfWindow(size_t n, size_t i, size_t j) const {
    const WindowBias& bias = *layer_.window_bias;
    const auto axes = static_cast<size_t>(bias.size.axes());
    std::vector<int64_t> window, grid;
    for (int axis = 0; axis < bias.size.axes(); ++axis) {
      window.push_back(bias.window[axis]);
      grid.push_back(bias.size[axis] / bias.window[axis]);
    }
    const std::vector<int64_t> query = Places(window, i), key = Places(window, j);
    const std::vector<int64_t> place = Places(grid, n % sets_);
    size_t row = 0;
    double mask = 0;
    for (size_t axis = 0; axis < axes; ++axis) {
      const int64_t shift = bias.shift[static_cast<int>(axis)];
      const int64_t size = bias.size[static_cast<int>(axis)];
      row = row * static_cast<size_t>(2 * window[axis] - 1) +
            static_cast<size_t>(query[axis] - key[axis] + window[axis] - 1);
      // torchvision's regions: before the last window, in it, and what has come from the beginning.
      const auto region = [&](int64_t at) {
        const int64_t position = place[axis] * window[axis] + at;
        return position < size - window[axis] ? 0 : position < size - shift ? 1 : 2;
      };
      if (region(query[axis]) != region(key[axis])) mask = -100;
    }
    return {row, mask};
  }

  double Bias(size_t n, size_t h, size_t i, size_t j) const {
    const size_t pair = i * key_.rows + j, pairs = query_.rows * key_.rows;
    if (layer_.window_bias.has_value()) {
      const auto [row, mask] = OfWindow(n, i, j);
      return given_.at(Param(0))[row * heads_ + h] + mask;
    }
    if (layer_.learned_bias) return given_.at(Param(0))[h * pairs + pair];
    const Operand bias = X(is_packed_ ? 1 : 3);
    if (!signature_.Has(bias)) return 0;
    const size_t heads = static_cast<size_t>(signature_.Spec(bias).shape.c());
    return given_.at(bias)[BiasRow(n, h, heads) * pairs + pair];
  }

  Matrices Scores() {
    Matrices s = {query_.images, heads_, query_.rows, key_.rows};
    ForEachRow([&](size_t n, size_t h, size_t i) {
      for (size_t j = 0; j < key_.rows; ++j) {
        double product = 0;
        for (size_t d = 0; d < key_.columns; ++d)
          product += query_.At(n, h, i, d) * key_.At(n, Shared(h), j, d);
        s.At(n, h, i, j) = layer_.causal && j > i ? -std::numeric_limits<double>::infinity()
                                                  : scale_ * product + Bias(n, h, i, j);
      }
    });
    return s;
  }

  Vector SumOverWindows(Matrices& ds) const {
    Vector sums(static_cast<size_t>(signature_.Spec(Param(0)).elements()));
    ForEachRow([&](size_t n, size_t h, size_t i) {
      for (size_t j = 0; j < ds.columns; ++j)
        sums[OfWindow(n, i, j).first * heads_ + h] += ds.At(n, h, i, j);
    });
    return sums;
  }

  Vector SumOverImages(const Matrices& ds) const {
    Vector sums(ds.values.size() / ds.images);
    for (size_t i = 0; i < ds.values.size(); ++i) sums[i % sums.size()] += ds.values[i];
    return sums;
  }

  Vector BiasGradient(Matrices& ds, int64_t heads) const {
    const auto count = static_cast<size_t>(heads);
    Vector sums(ds.images * count * ds.rows * ds.columns);
    ForEachRow([&](size_t n, size_t h, size_t i) {
      const size_t row = BiasRow(n, h, count) * ds.rows + i;
      for (size_t j = 0; j < ds.columns; ++j) sums[row * ds.columns + j] += ds.At(n, h, i, j);
    });
    return sums;
  }

  const StepSignature& signature_;
  const Values& given_;
  const Attention& layer_;
  const bool is_packed_;
  const size_t heads_, kv_heads_;
  size_t sets_ = 1;  // sequences of an image
  double scale_ = 1;
  Matrices query_{}, key_{}, value_{};  // query and key are rotated
};

}  // namespace

Values ReferenceAttention(const StepSignature& signature, const Values& given) {
  AttentionReference reference(signature, given);
  return signature.phase == Phase::kForward ? reference.Forward() : reference.Backward();
}

}  // namespace neap::testing
