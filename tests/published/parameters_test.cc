// Parameter totals of the presets against the checked totals that they carry (each from its published source).
#include <gtest/gtest.h>

#include "sextant/base/value.h"
#include "sextant/model/model.h"

namespace sextant {
namespace {

TEST(PublishedParameters, EveryPresetToTheLastParameter) {
  int checked = 0;
  for (const Preset& preset : model_presets()) {
    const Value json = parse_json(preset.text, preset.name);
    const Value* total = json.find("_parameters_total");
    ASSERT_NE(total, nullptr) << preset.name;
    const Model model = build_model(read_config(json, preset.name), {1, 16, DType::kF32});
    EXPECT_EQ(model.num_parameters(), std::get<std::int64_t>(total->data)) << preset.name;
    ++checked;
  }
  // 17 gpt2, 22 llama, 3 mistral, 7 qwen2, 6 qwen3, 3 olmo2, 3 gemma2, 8 gpt_neox, 10 mpt; 2 mixtral, 3 qwen3_moe,
  // 2 deepseek_v2, 2 deepseek_v3, 2 gpt_oss
  EXPECT_EQ(checked, 90);
}

TEST(PublishedParameters, FileShapesHoldExactlyTheParameters) {
  for (const char* name : {"gpt2", "llama3.2-1b", "qwen2.5-0.5b", "qwen3-0.6b", "llama3-8b", "mistral-7b-v0.1",
                           "olmo2-7b", "gemma2-2b", "pythia-160m", "mpt-125m", "mpt-7b-release"}) {
    const Model model = build_model(find_model(name), {1, 16, DType::kF32});
    std::int64_t stored = 0;
    for (const FileTensor& t : file_tensors(model)) {
      std::int64_t elements = 1;
      for (const std::int64_t size : t.shape) elements *= size;
      stored += elements;
    }
    EXPECT_EQ(stored, model.num_parameters()) << name;
  }
}

TEST(PublishedParameters, Gpt2StoresItsProductsTransposedAndJoined) {
  const Model model = build_model(find_model("gpt2"), {1, 16, DType::kF32});
  int found = 0;
  for (const FileTensor& t : file_tensors(model)) {
    found += t.name == "transformer.h.3.attn.c_attn.weight" || t.name == "transformer.h.3.mlp.c_fc.weight" ||
             t.name == "transformer.wte.weight";
    if (t.name == "transformer.h.3.attn.c_attn.weight") {
      EXPECT_EQ(t.shape, (std::vector<std::int64_t>{768, 2304}));
    }
    if (t.name == "transformer.h.3.mlp.c_fc.weight") {
      EXPECT_EQ(t.shape, (std::vector<std::int64_t>{768, 3072}));
    }
    if (t.name == "transformer.wte.weight") {
      EXPECT_EQ(t.shape, (std::vector<std::int64_t>{50257, 768}));
    }
  }
  EXPECT_EQ(found, 3);
}

}  // namespace
}  // namespace sextant
