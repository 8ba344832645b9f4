#include "parallel_block.h"

#include "sextant/base/str.h"
#include "sextant/ops/add.h"
#include "sextant/ops/attention.h"
#include "sextant/ops/dropout.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/linear.h"
#include "sextant/ops/residual.h"

namespace sextant {

Layer parallel_block(const ModelConfig& c, int index, Sizes sizes) {
  LayerBuilder b(str("L0", index), index, sizes);
  const auto weight = [&](const char* name, std::vector<Extent> dims) {
    Parameter p;
    p.spec = {.name = name, .dims = std::move(dims)};
    p.initial = {Initial::Kind::kNormal, c.initial_deviation};
    p.is_matrix = true;
    return b.parameter(std::move(p));
  };
  const auto linear = [&](const char* name, int x, int w) { return b.apply(std::make_shared<Linear>(), {x, w}, name); };
  const int x = b.input("BSD", {sizes.batch, sizes.sequence, c.width});
  Parameter scale;
  scale.spec = {.name = "norm.w", .dims = {{'D', c.width}}};
  scale.initial = {Initial::Kind::kOnes, 0};
  const int n = b.apply(std::make_shared<Norm>(NormKind::kRms, c.norm_epsilon), {x, b.parameter(scale)}, "norm");

  const std::vector<Extent> heads = {{'H', c.heads}, {'K', c.head_width}, {'D', c.width}},
                            groups = {{'G', c.kv_heads}, {'K', c.head_width}, {'D', c.width}};
  const int q = linear("q", n, weight("q.w", heads)), k = linear("k", n, weight("k.w", groups)),
            v = linear("v", n, weight("v.w", groups));
  const int a = b.apply(std::make_shared<Attention>(),
                        {q, k, v, b.data("first", DType::kI32), b.data("last", DType::kI32)}, "attention");
  const int out = linear("out", a, weight("out.w", {{'D', c.width}, {'H', c.heads}, {'K', c.head_width}}));
  const int up = b.apply(std::make_shared<Gelu>(GeluKind::kTanh),
                         {linear("up", n, weight("up.w", {{'F', c.ffn_width}, {'D', c.width}}))}, "act");
  const int down = linear("down", up, weight("down.w", {{'D', c.width}, {'F', c.ffn_width}}));
  const int both = b.apply(std::make_shared<Add>(), {out, down}, "both");
  return b.finish(b.apply(std::make_shared<Residual>(false, DropoutRule{}), {both, x}, "res"));
}

}  // namespace sextant
