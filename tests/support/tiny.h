#pragma once
#include "sextant/model/model.h"

namespace sextant {

/// GPT-2, Llama and Qwen3 style, small enough for thousands of runs and awkward enough to show mistakes: d 16, 4 heads,
/// 2 kv heads, V 37, T 16, dropout on.
ModelConfig tiny_gpt2(std::int64_t layers = 2, double dropout = 0.1);
ModelConfig tiny_llama(std::int64_t layers = 2, double dropout = 0.1, bool tied = false);
/// The further families, by name: mistral, olmo2, gemma2, gpt_neox (and gpt_neox_serial), mpt (and mpt_alibi).
ModelConfig tiny_of(const std::string& family, double dropout = 0);
ModelConfig tiny_qwen3(std::int64_t layers = 2);
/// Four experts, two a token, with room for whatever the router decides. `rich`: a dense layer first, a shared expert,
/// sigmoid scores, weights as they are.
ModelConfig tiny_mixture(bool rich = false);

}  // namespace sextant
