#include "sextant/runtime/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "sextant/base/errors.h"
#include "sextant/base/value.h"
#include "sextant/runtime/checkpoint/weights.h"

namespace sextant {
namespace {

// A folder of this process' own, gone at its end.
std::string folder() {
  static const struct Own {
    Own() : path(testing::TempDir() + "sextant_XXXXXX") { ::mkdtemp(path.data()); }
    ~Own() { std::filesystem::remove_all(path); }
    std::string path;
  } own;
  return own.path + "/";
}

std::string file_with(const std::string& header, std::size_t data_bytes, std::int64_t length = -1) {
  const std::uint64_t n = length >= 0 ? static_cast<std::uint64_t>(length) : header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &n, 8);
  return out + header + std::string(data_bytes, '\1');
}

std::string error_of(const std::string& bytes) {
  try {
    Safetensors::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "f");
  } catch (const InvalidInput& e) {
    EXPECT_EQ(e.exit_code, ExitCode::kCorrupt);
    const std::string text = e.what(), prefix = "f: not a valid safetensors file: ";
    return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
  }
  return "none";
}

std::string tensor(const std::string& shape, const std::string& offsets, const std::string& dtype = "\"F32\"") {
  return "{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
}

TEST(Safetensors, HostileFilesSayWhatIsOff) {
  EXPECT_EQ(error_of("abc"), "has 3 bytes, at least 8 are the header's length");
  EXPECT_EQ(error_of(file_with("", 0)), "its header does not start with {");
  EXPECT_EQ(error_of(file_with("{}", 0, std::int64_t{1} << 62)),
            "its header would have 4611686018427387904 bytes, at most 100000000");
  EXPECT_EQ(error_of(file_with("{}", 0, 50)),
            "its header would have 50 bytes, the file has 2 behind its length; it may be cut off");
  EXPECT_EQ(error_of(file_with("{}", 0)), "none");
  EXPECT_EQ(error_of(file_with("{}", 3)), "3 bytes behind the last tensor");
  EXPECT_EQ(error_of(file_with(tensor("[2]", "[0,8]"), 8)), "none");
  EXPECT_EQ(error_of(file_with(tensor("[2]", "[0,8]"), 7)), "tensor a: ends at byte 8 of 7; the file may be cut off");
  EXPECT_EQ(error_of(file_with(tensor("[2]", "[0,4]"), 8)), "tensor a: its shape has 8 bytes, its data_offsets 4");
  EXPECT_EQ(error_of(file_with(tensor("[1]", "[4,8]"), 8)), "tensor a begins at byte 4, expected 0 (hole)");
  EXPECT_EQ(error_of(file_with(tensor("[2]", "[8,0]"), 8)), "tensor a: data_offsets run from 8 to 0");
  EXPECT_EQ(error_of(file_with(tensor("[-2]", "[0,8]"), 8)), "tensor a: shape is no array of integers >= 0");
  EXPECT_EQ(error_of(file_with(tensor("[2.0]", "[0,8]"), 8)), "tensor a: shape is no array of integers >= 0");
  EXPECT_EQ(error_of(file_with(tensor("[4294967296,4294967296]", "[0,8]"), 8)),
            "tensor a: its shape has more than 2^63 bytes");
  EXPECT_EQ(error_of(file_with(tensor("[2]", "[0,8]", "\"F33\""), 8)), "tensor a: unknown dtype F33");
  EXPECT_EQ(error_of(file_with(tensor("[2]", "[0,8]", "7"), 8)), "tensor a: dtype is no string");
  EXPECT_EQ(error_of(file_with(tensor("[2]", "[0,8,9]"), 8)), "tensor a: data_offsets are no two integers");
  EXPECT_EQ(error_of(file_with("{\"a\":7}", 0)), "tensor a is no object");
  EXPECT_EQ(error_of(file_with("{\"__metadata__\":{\"x\":1}}", 0)), "__metadata__ x is no string");
  const std::string twice =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
      "offsets\":[1,2]}}";
  EXPECT_NE(error_of(file_with(twice, 2)).find("tensor a stands twice"), std::string::npos);
  const std::string overlap =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
      "offsets\":[1,3]}}";
  EXPECT_EQ(error_of(file_with(overlap, 3)), "tensor b begins at byte 1, expected 2 (overlap)");
  EXPECT_NE(error_of(file_with(tensor("[99999999999999999999]", "[0,8]"), 8)).find("beyond 63 bits"),
            std::string::npos);
  EXPECT_NE(error_of(file_with("{\"\x1b[31m\":7}", 0)).find("no valid JSON"),
            std::string::npos);  // raw control byte in a name
  EXPECT_EQ(error_of(file_with("{\"\\u001b[31m\":7}", 0)), "tensor \\x1b[31m is no object");
}

// Weights go to the file in its own layout and come back bitwise: transposed and joined (gpt2), or as they are.
TEST(Weights, RoundTripBitwiseAndInTheFilesLayout) {
  for (
      const char* json :
      {R"({"model_type":"gpt2","n_embd":8,"n_layer":2,"n_head":2,"n_positions":4,"vocab_size":11,"activation_function":"gelu"})",
       R"({"model_type":"gpt_neox","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":12,"vocab_size":11,"max_position_embeddings":4,"rotary_pct":0.5,"hidden_act":"gelu"})",
       R"({"model_type":"mpt","d_model":8,"n_layers":2,"n_heads":2,"max_seq_len":4,"vocab_size":11})",
       R"({"model_type":"qwen2","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":12,"vocab_size":11,"max_position_embeddings":4})"}) {
    const Model model = build_model(read_config(parse_json(json, "c"), "c"), {1, 4, DType::kF32});
    std::map<std::string, std::vector<float>> saved, loaded;
    float next = 0;
    for (const Parameter* p : model.parameters()) {
      auto& values = saved[p->spec.name];
      for (std::int64_t i = 0; i < p->spec.elements(); ++i) values.push_back(next += 0.5F);
      loaded[p->spec.name].resize(values.size());
    }
    const auto bytes = [](auto& all) {
      return [&all](const std::string& name) { return std::as_writable_bytes(std::span(all.at(name))); };
    };
    for (const std::int64_t shard : {1'000'000, 500, 1}) {
      for (auto& [name, values] : loaded) std::fill(values.begin(), values.end(), 0.0F);
      save_weights(folder(), model, bytes(saved), {shard});
      const WeightFiles files = WeightFiles::open(folder());
      EXPECT_EQ(files.files().size() > 1, shard < 1'000'000);
      load_weights(files, model, bytes(loaded));
      EXPECT_EQ(loaded, saved);
    }
    save_weights(folder(), model, bytes(saved));
    const Safetensors file = Safetensors::open(folder() + "/model.safetensors");
    if (const StoredTensor* joined = file.find("transformer.h.1.attn.c_attn.weight")) {
      EXPECT_EQ(joined->shape, (std::vector<std::int64_t>{8, 24}));
      // Element (in 3, out 8 + 5) is k's row 5, column 3.
      float stored = 0;
      std::memcpy(&stored, joined->data.data() + (3 * 24 + 8 + 5) * 4, 4);
      EXPECT_EQ(stored, saved.at("L01.k.w")[5 * 8 + 3]);
    }
  }
}

TEST(Weights, WrongModelsAreNamedByTensor) {
  const auto model_of = [](int width, int layers) {
    return build_model(
        read_config(parse_json(str(R"({"model_type":"gpt2","n_embd":)", width, R"(,"n_layer":)", layers,
                                   R"(,"n_head":2,"n_positions":4,"vocab_size":11,"activation_function":"gelu"})"),
                               "c"),
                    "c"),
        {1, 4, DType::kF32});
  };
  const std::string path = folder();
  std::map<std::string, std::vector<float>> memory;
  const auto bytes = [&](const Model& model) {
    memory.clear();
    for (const Parameter* p : model.parameters())
      memory[p->spec.name].resize(static_cast<std::size_t>(p->spec.elements()));
    return [&](const std::string& name) { return std::as_writable_bytes(std::span(memory.at(name))); };
  };
  const Model one = model_of(8, 1), two = model_of(8, 2), wide = model_of(16, 1);
  save_weights(path, one, bytes(one));
  const auto error = [&](const Model& model) {
    try {
      load_weights(WeightFiles::open(path), model, bytes(model));
    } catch (const InvalidInput& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error(one), "none");
  EXPECT_EQ(error(two),
            path +
                "/model.safetensors: has no tensor transformer.h.1.ln_1.weight, which this model needs (it has "
                "transformer.h.0.ln_1.weight)");
  EXPECT_EQ(error(wide),
            path + "/model.safetensors: tensor transformer.wte.weight is [11, 8], this model needs [11, 16]");
  save_weights(path, two, bytes(two));
  EXPECT_NE(error(one).find("has a tensor transformer.h.1."), std::string::npos);
}

}  // namespace
}  // namespace sextant
