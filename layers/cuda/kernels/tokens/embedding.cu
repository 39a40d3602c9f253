// Embeddings. Forward copies rows: a warp for each position. Backward sorts the positions by id,
// keeping the order of those of one id, and sums the rows of dy of each id in this order.
//
// The sort is a radix sort of 8 bits of the id at a time: a tile of positions counts its digits,
// one block turns the counts of all tiles into places, and each position finds its place among the
// equal digits of its tile. There are no atomic operations, so the sort's time does not depend on
// the ids. That of the sums does: the tiles of one id are added one after another, by as many
// threads as there are channels, so an id that most positions have, such as one of padding, should
// be Embedding::padding, which is left out.
//
// Sums are taken in tiles of kSumTile places of the sorted positions:
//
//   sorted ids  3 3 3 5 | 5 5 5 5 | 5 5 9 9
//   a tile      row 3, tail of 5 | head of 5 | head of 5, row 9
//
// The row of an id that begins and ends in one tile is written there. Of any other, each tile keeps
// a partial sum, and the tile in which it begins adds them in their order.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/tokens/tokens.h"

namespace neap::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kDigits = 256;
constexpr int kDigitBits = 8;
constexpr int kSumTile = 32;
static_assert(kDigits == kThreads, "a thread counts one digit");

// The place of a position's first channel, and the distance between its channels.
struct EmbeddedAt {
  explicit EmbeddedAt(const ChannelShape& s)
      : channels(static_cast<size_t>(s.channels)),
        inner(s.channels_last ? 1 : static_cast<size_t>(s.inner)) {}
  __device__ size_t First(size_t position) const {
    return position / inner * inner * channels + position % inner;
  }
  size_t channels, inner;  // inner: the distance
};

template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads)
    EmbedRows(uint32_t count, uint32_t vectors, int64_t vocabulary, const int32_t* ids,
              const T* weight, T* y) {
  const uint32_t position = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (position >= count) return;
  const int32_t id = ids[position];
  const bool known = id >= 0 && id < vocabulary;
  const size_t from = known ? static_cast<size_t>(id) * vectors : 0;
  const size_t to = static_cast<size_t>(position) * vectors;
  Vec<kVec> none;
#pragma unroll
  for (float& f : none.v) f = nanf("");
  for (uint32_t i = threadIdx.x % kWarp; i < vectors; i += kWarp)
    Write<kVec>(y, to + i, known ? Read<kVec>(weight, from + i) : Pack<T>(none));
}

// With channels first: a thread for each element.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    EmbedPlanes(size_t n, size_t channels, size_t inner, int64_t vocabulary, const int32_t* ids,
                const T* weight, T* y) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const size_t plane = i / inner;
  const int32_t id = ids[plane / channels * inner + i % inner];
  const bool known = id >= 0 && id < vocabulary;
  y[i] =
      known ? weight[static_cast<size_t>(id) * channels + plane % channels] : RoundTo<T>(nanf(""));
}

// The id of a position, or `vocabulary` if it is left out, so that it comes last.
struct EmbeddingKeys {
  __device__ uint32_t Of(uint32_t position) const {
    const int32_t id = ids[position];
    const bool counts = id >= 0 && id < vocabulary && id != padding;
    return static_cast<uint32_t>(counts ? id : vocabulary);
  }
  const int32_t* ids;
  int64_t vocabulary, padding;
};

// The digits of a tile of positions; `from` has the positions, or is null before the first pass.
__device__ __forceinline__ uint32_t PositionAt(const uint32_t* from, uint32_t i) {
  return from == nullptr ? i : from[i];
}

// counts[digit * tiles + tile]
__global__ void __launch_bounds__(kThreads)
    CountDigits(EmbeddingKeys keys, uint32_t count, int shift, const uint32_t* from,
                uint32_t* counts) {
  __shared__ uint32_t digits[kThreads];
  const uint32_t first = blockIdx.x * kThreads, i = first + threadIdx.x;
  if (i < count) digits[threadIdx.x] = keys.Of(PositionAt(from, i)) >> shift & (kDigits - 1);
  __syncthreads();
  const uint32_t in_tile = min(count - first, static_cast<uint32_t>(kThreads));
  uint32_t equal = 0;
  for (uint32_t k = 0; k < in_tile; ++k) equal += digits[k] == threadIdx.x ? 1 : 0;
  counts[threadIdx.x * gridDim.x + blockIdx.x] = equal;
}

// Makes the counts the sums of all counts before, in one block.
__global__ void __launch_bounds__(kThreads) SumCounts(uint32_t entries, uint32_t* counts) {
  __shared__ uint32_t sums[kThreads];
  const uint32_t each = (entries + kThreads - 1) / kThreads;
  const uint32_t begin = min(threadIdx.x * each, entries), end = min(begin + each, entries);
  uint32_t sum = 0;
  for (uint32_t i = begin; i < end; ++i) sum += counts[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  uint32_t before = 0;
  for (uint32_t k = 0; k < threadIdx.x; ++k) before += sums[k];
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t own = counts[i];
    counts[i] = before;
    before += own;
  }
}

__global__ void __launch_bounds__(kThreads)
    PlacePositions(EmbeddingKeys keys, uint32_t count, int shift, const uint32_t* from,
                   const uint32_t* places, uint32_t* to) {
  __shared__ uint32_t digits[kThreads];
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  const uint32_t position = i < count ? PositionAt(from, i) : 0;
  const uint32_t digit = i < count ? keys.Of(position) >> shift & (kDigits - 1) : 0;
  digits[threadIdx.x] = digit;
  __syncthreads();
  if (i >= count) return;
  uint32_t before = 0;
  for (uint32_t k = 0; k < threadIdx.x; ++k) before += digits[k] == digit ? 1 : 0;
  to[places[digit * gridDim.x + blockIdx.x] + before] = position;
}

// The sorted positions.
struct SortedPositions {
  __device__ uint32_t KeyAt(uint32_t place) const { return keys.Of(sorted[place]); }
  // Whether the id of the place before is the same.
  __device__ bool Continues(uint32_t place) const {
    return place > 0 && place < count && KeyAt(place - 1) == KeyAt(place);
  }
  __device__ bool IsLeftOut(uint32_t key) const { return key == keys.vocabulary; }
  EmbeddingKeys keys;
  const uint32_t* sorted;
  uint32_t count;
};

__device__ __forceinline__ void StoreRow(float* dweight, size_t at, float sum, bool add) {
  dweight[at] = (add ? dweight[at] : 0.0F) + sum;
}

// Partial sums: {tile, head or tail, channel}.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SumTiles(SortedPositions positions, EmbeddedAt at, bool add, const T* dy, float* dweight,
             float* partial) {
  const size_t channels = at.channels;
  const size_t c = static_cast<size_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (c >= channels) return;
  const uint32_t begin = blockIdx.x * kSumTile;
  const uint32_t end = min(begin + kSumTile, positions.count);
  bool is_head = positions.Continues(begin);
  float sum = 0;
  for (uint32_t place = begin; place < end; ++place) {
    sum += ToFloat(dy[at.First(positions.sorted[place]) + c * at.inner]);
    const bool goes_on = positions.Continues(place + 1);
    if (goes_on && place + 1 < end) continue;
    const uint32_t key = positions.KeyAt(place);
    const size_t tile = 2 * static_cast<size_t>(blockIdx.x);
    if (is_head) {
      partial[tile * channels + c] = sum;
    } else if (goes_on) {
      partial[(tile + 1) * channels + c] = sum;
    } else if (!positions.IsLeftOut(key)) {
      StoreRow(dweight, key * channels + c, sum, add);
    }
    is_head = false;
    sum = 0;
  }
}

// Adds the partial sums of the id that begins in a tile and goes on in the next.
__global__ void __launch_bounds__(kThreads)
    JoinTiles(SortedPositions positions, size_t channels, bool add, const float* partial,
              float* dweight) {
  const size_t c = static_cast<size_t>(blockIdx.y) * kThreads + threadIdx.x;
  uint32_t begin = blockIdx.x * kSumTile, end = min(begin + kSumTile, positions.count);
  if (c >= channels || !positions.Continues(end)) return;
  const uint32_t key = positions.KeyAt(end);
  const bool began_before = positions.Continues(begin) && positions.KeyAt(begin) == key;
  if (began_before || positions.IsLeftOut(key)) return;
  size_t tile = 2 * static_cast<size_t>(blockIdx.x);
  float sum = partial[(tile + 1) * channels + c];
  while (positions.Continues(end) && positions.KeyAt(end) == key) {
    tile += 2;
    sum += partial[tile * channels + c];
    end = min(end + kSumTile, positions.count);
  }
  StoreRow(dweight, key * channels + c, sum, add);
}

int64_t PassesOf(int64_t vocabulary) {
  int64_t passes = 1;
  while (vocabulary >> (passes * kDigitBits) > 0) ++passes;
  return passes;
}

// The parts of the scratch memory: two lists of positions, the counts of digits, and the partial
// sums.
struct EmbeddingScratch {
  explicit EmbeddingScratch(const ChannelShape& s)
      : count(s.outer * s.inner),
        tiles(CeilDiv(count, kThreads)),
        sum_tiles(CeilDiv(count, kSumTile)),
        bytes((2 * count + kDigits * tiles + 2 * sum_tiles * s.channels) * 4) {}
  uint32_t* Positions(void* scratch, int64_t list) const {
    return static_cast<uint32_t*>(scratch) + list * count;
  }
  uint32_t* Counts(void* scratch) const { return Positions(scratch, 2); }
  float* Partial(void* scratch) const {
    return reinterpret_cast<float*>(Counts(scratch) + kDigits * tiles);
  }
  int64_t count, tiles, sum_tiles, bytes;
};

// The positions sorted by key, in one of the lists.
const uint32_t* SortPositions(const EmbeddingKeys& keys, const EmbeddingScratch& parts,
                              void* scratch, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(parts.tiles);
  const auto count = static_cast<uint32_t>(parts.count);
  uint32_t* const counts = parts.Counts(scratch);
  const uint32_t* sorted = nullptr;
  for (int64_t pass = 0; pass < PassesOf(keys.vocabulary); ++pass) {
    const int shift = static_cast<int>(pass) * kDigitBits;
    uint32_t* const to = parts.Positions(scratch, pass % 2);
    CountDigits<<<tiles, kThreads, 0, stream>>>(keys, count, shift, sorted, counts);
    SumCounts<<<1, kThreads, 0, stream>>>(kDigits * tiles, counts);
    PlacePositions<<<tiles, kThreads, 0, stream>>>(keys, count, shift, sorted, counts, to);
    sorted = to;
  }
  return sorted;
}

}  // namespace

cudaError_t Embed(const ChannelShape& s, int64_t vocabulary, const int32_t* ids, ConstArray weight,
                  Array y, cudaStream_t stream) {
  const int64_t count = s.outer * s.inner, n = count * s.channels;
  if (!Fits32(count)) return cudaErrorInvalidValue;
  const auto run = [&]<typename T>() {
    if (!s.channels_last && s.inner > 1) {
      EmbedPlanes<<<BlocksOf(n), kThreads, 0, stream>>>(
          static_cast<size_t>(n), static_cast<size_t>(s.channels), static_cast<size_t>(s.inner),
          vocabulary, ids, As<T>(weight), As<T>(y));
      return cudaGetLastError();
    }
    const auto blocks = static_cast<unsigned>(CeilDiv(count, kThreads / kWarp));
    const auto rows = static_cast<uint32_t>(count), width = static_cast<uint32_t>(s.channels);
    constexpr int kVec = kWide<T>;
    if (s.channels % kVec == 0 && AllAligned16(weight, y)) {
      EmbedRows<T, kVec><<<blocks, kThreads, 0, stream>>>(rows, width / kVec, vocabulary, ids,
                                                          As<T>(weight), As<T>(y));
    } else {
      EmbedRows<T, 1>
          <<<blocks, kThreads, 0, stream>>>(rows, width, vocabulary, ids, As<T>(weight), As<T>(y));
    }
    return cudaGetLastError();
  };
  return WithElement(run, weight, y);
}

int64_t EmbeddingScratchBytes(const ChannelShape& dy) { return EmbeddingScratch(dy).bytes; }

cudaError_t EmbeddingBackward(const ChannelShape& s, const EmbeddingGradient& options,
                              const int32_t* ids, ConstArray dy, float* dweight, void* scratch,
                              cudaStream_t stream) {
  if (!Fits32(s.outer * s.inner)) return cudaErrorInvalidValue;
  const EmbeddingScratch parts(s);
  const EmbeddingKeys keys = {ids, options.vocabulary, options.padding};
  const SortedPositions positions = {keys, SortPositions(keys, parts, scratch, stream),
                                     static_cast<uint32_t>(parts.count)};
  float* const partial = parts.Partial(scratch);
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  if (!options.add) {
    const auto bytes = static_cast<size_t>(options.vocabulary * s.channels) * sizeof(float);
    error = cudaMemsetAsync(dweight, 0, bytes, stream);
    if (error != cudaSuccess) return error;
  }
  const dim3 grid(static_cast<unsigned>(parts.sum_tiles), BlocksOf(s.channels));
  const auto run = [&]<typename T>() {
    SumTiles<<<grid, kThreads, 0, stream>>>(positions, EmbeddedAt(s), options.add, As<T>(dy),
                                            dweight, partial);
    return cudaGetLastError();
  };
  error = WithElement(run, dy);
  if (error != cudaSuccess) return error;
  JoinTiles<<<grid, kThreads, 0, stream>>>(positions, static_cast<size_t>(s.channels), options.add,
                                           partial, dweight);
  return cudaGetLastError();
}

}  // namespace neap::kernels
