#include "sextant/model/abstract.h"

#include "sextant/base/str.h"
#include "sextant/ops/embedding.h"
#include "sextant/ops/head.h"
#include "sextant/ops/linear.h"

namespace sextant {

std::vector<Layer> abstract_layers(int count, std::int64_t batch) {
  std::vector<Layer> out;
  for (int i = 0; i < count; ++i) {
    LayerBuilder b(str("u", i), i, {batch, 1, DType::kF32});
    const auto matrix = [&](const std::string& name, Dim to, Dim from) {
      return b.parameter({.spec = {.name = name, .dims = {{to, 1}, {from, 1}}}, .is_matrix = true});
    };
    int x = i == 0 ? b.apply(std::make_shared<Embedding>(), {b.data("ids", DType::kI32), matrix("tokens.w", 'V', 'D')},
                             "tokens")
                   : b.input("BSD", {batch, 1, 1});
    x = b.apply(std::make_shared<Linear>(), {x, matrix("up.w", 'F', 'D')}, "up");
    x = b.apply(std::make_shared<Linear>(), {x, matrix("down.w", 'D', 'F')}, "down");
    const bool is_last = i + 1 == count;
    if (is_last)
      b.apply(std::make_shared<Head>(), {x, matrix("head.w", 'V', 'D'), b.data("labels", DType::kI32)}, "loss");
    out.push_back(b.finish(is_last ? -1 : x));
  }
  return out;
}

}  // namespace sextant
