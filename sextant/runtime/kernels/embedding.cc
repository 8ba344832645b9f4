#include "sextant/ops/embedding.h"

#include <cstring>

#include "sextant/runtime/kernels/kernel.h"

namespace sextant {
namespace {

// Reads: ids, w. Writes: y = scale w[id]. An id outside the table was refused by the loader.
template <class T>
void embedding_forward(const KernelCall& c) {
  const auto* ids = c.reads[0].as<std::int32_t>();
  const std::int64_t width = c.reads[1].last(1), first = c.reads[1].first_row,
                     rows = c.reads[1].real_rows(c.reads[1].rows(1));
  const T* w = c.reads[1].as<T>();
  T* y = c.writes[0].as<T>();
  const T scale = static_cast<T>(static_cast<const Embedding&>(c.op).scale);
  c.team.split(c.reads[0].elements(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t id = ids[t] - first;
      if (id < 0 || id >= rows) {  // a row of another rank: its part of the sum is there
        std::memset(y + t * width, 0, static_cast<std::size_t>(width) * sizeof(T));
        continue;
      }
      const T* row = w + id * width;
      if (scale == T{1}) {
        std::memcpy(y + t * width, row, static_cast<std::size_t>(width) * sizeof(T));
      } else {
#pragma omp simd
        for (std::int64_t d = 0; d < width; ++d) y[t * width + d] = scale * row[d];
      }
    }
  });
}

// Reads: ids, dy. Writes: -, dw. Tokens may share a row, so threads split the columns.
template <class T>
void embedding_backward(const KernelCall& c) {
  const auto* ids = c.reads[0].as<std::int32_t>();
  const T* dy = c.reads[1].as<T>();
  T* dw = c.writes[1].as<T>();
  const T scale = static_cast<T>(static_cast<const Embedding&>(c.op).scale);
  const std::int64_t width = c.writes[1].last(1), rows = c.writes[1].rows(1), tokens = c.reads[0].elements(),
                     first = c.writes[1].first_row;
  c.team.split(width, 16, [&](std::int64_t begin, std::int64_t end) {
    if (!c.add[1])
      for (std::int64_t v = 0; v < rows; ++v)
        std::memset(dw + v * width + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(T));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t id = ids[t] - first;
      if (id < 0 || id >= rows) continue;
      T* row = dw + id * width;
      const T* from = dy + t * width;
#pragma omp simd
      for (std::int64_t d = begin; d < end; ++d) row[d] += scale * from[d];
    }
  });
}

}  // namespace

void add_embedding_kernels(KernelTable& table) {
  table.add("embedding", Pass::kF, embedding_forward<float>, embedding_forward<double>);
  table.add("embedding", Pass::kI, embedding_backward<float>, embedding_backward<double>);
}

}  // namespace sextant
