// OLMo 2 (OLMo team 2024): norms behind the branches, and over whole projections of q and k.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read(Fields& f, const std::string& file) {
  ModelConfig c = read_llama_like(f, file, "olmo2", {.epsilon = 1e-5});
  read_windows(f, c, 0);
  c.norm_order = NormOrder::kBehind;
  c.qk_norm = QkNorm::kProjection;
  return c;
}

std::string tensor(const std::string& what, const std::string& part, int layer) {
  const std::string at = str("model.layers.", layer, ".");
  if (what == "norm1_behind") return at + "post_attention_layernorm." + part;
  if (what == "norm2_behind") return at + "post_feedforward_layernorm." + part;
  return llama_tensor(what, part, layer);
}

}  // namespace

std::vector<Family> olmo2_families() {
  return {{"olmo2", read, tensor, false, QkvLayout::kApart, {}, "attention_dropout", "Olmo2ForCausalLM"}};
}

}  // namespace sextant
