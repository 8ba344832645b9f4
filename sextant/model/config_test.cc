#include <gtest/gtest.h>

#include "sextant/base/value.h"
#include "sextant/model/model.h"

namespace sextant {
namespace {

constexpr const char* kLlama =
    R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 16, "intermediate_size": 96,
       "vocab_size": 100, "max_position_embeddings": 128)";
ModelConfig read(const std::string& text) {
  return read_config(parse_json("{" + text + "}", "config.json"), "config.json");
}
ModelConfig like_llama(const std::string& family, const std::string& more = "") {
  return read(str("\"model_type\": \"", family, "\", ", kLlama, more.empty() ? "" : ", ", more));
}

// A field that is missing stands for what transformers' class of the family has.
TEST(Config, MissingFieldsStandForWhatTransformersHas) {
  EXPECT_EQ(like_llama("llama").kv_heads, 16);
  EXPECT_EQ(like_llama("mistral").kv_heads, 8);
  EXPECT_EQ(like_llama("mistral", "\"num_key_value_heads\": null").kv_heads, 16);
  EXPECT_EQ(like_llama("mistral").attention.window, 4096);
  EXPECT_EQ(like_llama("mistral", "\"sliding_window\": null").attention.window, 0);
  EXPECT_EQ(like_llama("qwen3").head_width, 128);
  const ModelConfig mixtral = like_llama("mixtral", "\"num_local_experts\": 4, \"num_experts_per_tok\": 2");
  EXPECT_EQ(mixtral.rope_theta, 1e6);
  EXPECT_EQ(mixtral.norm_epsilon, 1e-5);
  const ModelConfig gemma2 = like_llama("gemma2", "\"num_key_value_heads\": 4");
  EXPECT_EQ(gemma2.head_width, 256);
  EXPECT_EQ(gemma2.attention.softcap, 50);
  EXPECT_EQ(gemma2.head.softcap, 30);
  EXPECT_EQ(gemma2.attention.window, 4096);
  EXPECT_EQ(like_llama("gemma2", "\"num_key_value_heads\": 4, \"final_logit_softcapping\": null").head.softcap, 0);
}

TEST(Config, NewerNamesOfRotaryFieldsWin) {
  const std::string neox = R"("model_type": "gpt_neox", "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 128)";
  EXPECT_EQ(read(neox).rotary_width, 4);
  EXPECT_EQ(read(neox + R"(, "rotary_pct": 0.5, "rotary_emb_base": 500)").rotary_width, 8);
  const ModelConfig newer = read(neox + R"(, "rotary_pct": 0.5, "rotary_emb_base": 500,
      "rope_parameters": {"rope_type": "default", "rope_theta": 700, "partial_rotary_factor": 1.0})");
  EXPECT_EQ(newer.rotary_width, 16);
  EXPECT_EQ(newer.rope_theta, 700);
}

TEST(Config, TheBalanceLossOfARouterIsOffUnlessItIsSwitchedOn) {
  const std::string experts = "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"router_aux_loss_coef\": 0.02";
  EXPECT_EQ(like_llama("mixtral", experts).mixture.router.auxiliary, 0);
  EXPECT_EQ(like_llama("mixtral", experts + ", \"output_router_logits\": true").mixture.router.auxiliary, 0.02);
}

TEST(Config, WhatIsWrittenSaysWhatWasTrained) {
  ModelConfig gpt2 = read(R"("model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8,
      "vocab_size": 10, "_note": "x", "torch_dtype": "bfloat16")");
  gpt2.dropout = 0.25;
  const std::string text = to_json(config_to_write(gpt2, DType::kF32));
  for (const char* part : {R"("resid_pdrop":0.25)", R"("embd_pdrop":0.25)", R"("torch_dtype":"float32")",
                           R"("architectures":["GPT2LMHeadModel"])"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_EQ(text.find("_note"), std::string::npos);
  EXPECT_EQ(read_config(parse_json(text, "again"), "again").dropout, 0.25);
}

}  // namespace
}  // namespace sextant
