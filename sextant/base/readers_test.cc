// Both readers and the typed access on top: every message has its place, what was found and what would be valid.
#include <gtest/gtest.h>

#include "sextant/base/errors.h"
#include "sextant/base/fields.h"

namespace sextant {
namespace {

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "none";
}
std::string json_error(const std::string& text) {
  return error_of([&] { parse_json(text, "f.json"); });
}
std::string run_error(const std::string& text) {
  return error_of([&] { parse_run_file(text, "run.toml"); });
}

TEST(Json, KeepsIntegersAndOrderAndWritesThemBack) {
  const std::string text = R"({"b":[1,2.5,-9223372036854775807,true,null,"x\n"],"a":{"c":"é"}})";
  EXPECT_EQ(to_json(parse_json(text, "f")), text);
  EXPECT_EQ(std::get<std::int64_t>(std::get<Value::Array>(parse_json(text, "f").find("b")->data)[2].data),
            -9223372036854775807);
}

TEST(Json, RefusesWhatOtherReadersLetPass) {
  EXPECT_EQ(json_error("{\"a\": 1,\n \"a\": 2}"), "f.json:2:4: key \"a\" stands twice in one object");
  EXPECT_EQ(json_error("{\"a\": 1, \"\\u0061\": 2}"), "f.json:1:17: key \"a\" stands twice in one object");
  EXPECT_EQ(json_error("{\"a\": 99999999999999999999}"), "f.json:1:27: integer 99999999999999999999 is beyond 63 bits");
  EXPECT_EQ(json_error("\xef\xbb\xbf{}"), "f.json:1:1: starts with a byte-order mark; save it as plain UTF-8");
  std::string many = "[0";
  for (int i = 0; i < 4'000'000; ++i) many += ",0";
  EXPECT_NE(json_error(many + "]").find("more than"), std::string::npos);
  EXPECT_EQ(json_error(std::string(65, '[') + std::string(65, ']')), "f.json:1:65: nested deeper than 64");
  EXPECT_NE(json_error("{\"a\": }").find("f.json:1:7: no valid JSON"), std::string::npos) << json_error("{\"a\": }");
  EXPECT_NE(json_error("").find("no valid JSON"), std::string::npos);
  EXPECT_NE(json_error("{} x").find("no valid JSON"), std::string::npos);
  EXPECT_NE(json_error("\"\xff\"").find("no valid JSON"), std::string::npos);
  EXPECT_NE(json_error("1e999").find("no valid JSON"), std::string::npos) << json_error("1e999");
}

TEST(RunFile, SectionsKeysAndValues) {
  const Value v = parse_run_file(
      "# a comment\r\n[plan]   # another\r\ntp = 2\nname = \"a \\\"b\\\"\"\nrate = 3e-4\nbig = 1_000\non = true\nbetas "
      "= [0.9,\n  0.95, # two\n]\n",
      "run.toml");
  EXPECT_EQ(to_json(v), R"({"plan":{"tp":2,"name":"a \"b\"","rate":0.0003,"big":1000,"on":true,"betas":[0.9,0.95]}})");
  EXPECT_EQ(v.find("plan")->find("rate")->line, 5);
  EXPECT_EQ(v.find("plan")->find("rate")->column, 8);
}

TEST(RunFile, EveryErrorHasItsPlace) {
  EXPECT_EQ(run_error("tp = 2\n"),
            "run.toml:1:1: a key before the first [section]; write the name of its section in brackets above it");
  EXPECT_EQ(run_error("[plan]\ntp = 2\ntp = 3\n"), "run.toml:3:1: [plan] tp stands twice");
  EXPECT_EQ(run_error("[plan]\n[plan]\n"), "run.toml:2:1: section [plan] stands twice");
  EXPECT_EQ(run_error("[plan\n"), "run.toml:1:6: expected ] after [plan");
  EXPECT_EQ(run_error("[plan]\ntp 2\n"), "run.toml:2:4: expected = after tp");
  EXPECT_EQ(run_error("[plan]\ntp = \n"), "run.toml:2:6: expected a value, found '\\x0a'");
  EXPECT_EQ(run_error("[plan]\ntp = two\n"), "run.toml:2:9: 'two' is no value; strings stand in \"quotes\"");
  EXPECT_EQ(run_error("[plan]\ntp = 2 3\n"), "run.toml:2:8: expected the end of the line, found '3'");
  EXPECT_EQ(run_error("[plan]\ntp = \"2\n"), "run.toml:2:8: string without its closing \"");
  EXPECT_EQ(run_error("[plan]\ntp = 99999999999999999999\n"),
            "run.toml:2:26: integer 99999999999999999999 is beyond 63 bits");
  EXPECT_EQ(run_error("[a]\nb = [1, [2\n"), "run.toml:3:1: expected , or ] in an array");
  EXPECT_EQ(run_error("[a.b]\n"), "run.toml:1:3: expected ] after [a");
  EXPECT_EQ(run_error("[~a]"),
            "run.toml:1:2: expected a section name, found '~'");  // four bytes that end another reader
  EXPECT_EQ(run_error("[a]\nb = " + std::string(20, '[')), "run.toml:2:13: arrays nested deeper than 8");
}

TEST(Fields, TypesRangesAndUnknownKeys) {
  const Value v = parse_run_file("[plan]\ntp = \"2\"\ncp = 0\ndp_shrd = 4\nrate = 2.5\n", "run.toml");
  Fields f(v.find("plan"), "run.toml", "[plan]");
  EXPECT_EQ(error_of([&] { f.integer("tp", 1); }), "run.toml:2:6: [plan] tp: found \"2\", expected an integer >= 1");
  EXPECT_EQ(error_of([&] { f.integer("cp", 1, 8); }),
            "run.toml:3:6: [plan] cp: found 0, expected an integer from 1 to 8");
  EXPECT_EQ(error_of([&] { f.boolean("cp"); }), "run.toml:3:6: [plan] cp: found 0, expected true or false");
  EXPECT_EQ(error_of([&] {
              f.one_of("rate", {"a", "b"});
            }),
            "run.toml:5:8: [plan] rate: found 2.5, expected one of a, b");
  EXPECT_EQ(error_of([&] { f.integer("dp_shard", 1); }),
            "run.toml:1:1: [plan] dp_shard: is missing, expected an integer >= 1 (found dp_shrd)");
  EXPECT_EQ(f.number("rate", 0, 10), 2.5);
  EXPECT_EQ(error_of([&] { f.finish(); }), "run.toml:4:11: [plan] dp_shrd: unknown key; did you mean dp_shard?");
}

TEST(Words, NearestIsHelpfulOrSilent) {
  EXPECT_EQ(nearest("lerning_rate", {"learning_rate", "beta1"}), "learning_rate");
  EXPECT_EQ(nearest("xyz", {"learning_rate", "beta1"}), "");
  EXPECT_EQ(printable(std::string("a\x1b[31m\0", 7)), "a\\x1b[31m\\x00");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace sextant
