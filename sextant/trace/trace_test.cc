#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sextant/base/value.h"
#include "sextant/trace/timeline.h"

namespace sextant {
namespace {

std::int64_t integer(const Value& object, const char* key) { return std::get<std::int64_t>(object.find(key)->data); }
std::string text(const Value& object, const char* key) { return std::get<std::string>(object.find(key)->data); }
double number(const Value& object, const char* key) {
  const Value* v = object.find(key);
  return std::holds_alternative<double>(v->data) ? std::get<double>(v->data)
                                                 : static_cast<double>(std::get<std::int64_t>(v->data));
}

struct Slice {
  double start, end;
};

// Slices by thread, and checks of what every trace must be.
std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Slice>> slices_of(const std::string& json,
                                                                              int* flows = nullptr) {
  const Value trace = parse_json(json, "trace.json");
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Slice>> out;
  std::map<std::int64_t, int> ends;
  for (const Value& e : std::get<Value::Array>(trace.find("traceEvents")->data)) {
    const std::string phase = text(e, "ph");
    if (phase == "X")
      out[{integer(e, "pid"), integer(e, "tid")}].push_back({number(e, "ts"), number(e, "ts") + number(e, "dur")});
    if (phase == "s" || phase == "f") ends[integer(e, "id")] += phase == "s" ? 1 : 10;
  }
  for (const auto& [id, seen] : ends) EXPECT_EQ(seen, 11) << "flow " << id;
  if (flows) *flows = static_cast<int>(ends.size());
  return out;
}

// Any two slices of a thread are apart, or one lies within the other.
void expect_nested(const std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Slice>>& threads) {
  for (const auto& [at, slices] : threads)
    for (std::size_t i = 0; i < slices.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const Slice &a = slices[j], &b = slices[i];  // a starts first, or holds b
        constexpr double kRounding = 1e-6;           // of sums of decimal fractions
        EXPECT_LE(a.start, b.start);
        EXPECT_TRUE(b.start >= a.end - kRounding || b.end <= a.end + kRounding)
            << a.start << ".." << a.end << " " << b.start << ".." << b.end;
      }
}

TEST(Timeline, EventsComeBackFromBytes) {
  const std::vector<Event> events{{.what = "2F3", .start = {5}, .end = {7}, .rank = 3, .microbatch = 3, .chunk = 1},
                                  {.what = "",
                                   .start = {6},
                                   .end = {6.5},
                                   .bytes = {9},
                                   .stream = Stream::kMessages,
                                   .kind = EventKind::kTransfer,
                                   .message = 11}};
  const std::vector<Event> back = unpack(pack(events, {5}));
  ASSERT_EQ(back.size(), 2);
  EXPECT_EQ(back[0].what, "2F3");
  EXPECT_EQ(back[0].start, Seconds{0});
  EXPECT_EQ(back[0].end, Seconds{2});
  EXPECT_EQ(std::tuple(back[0].rank, back[0].microbatch, back[0].chunk), std::tuple(3, 3, 1));
  EXPECT_EQ(std::tuple(back[1].what, back[1].bytes, back[1].stream, back[1].kind, back[1].message),
            std::tuple("", Bytes{9}, Stream::kMessages, EventKind::kTransfer, 11));
  EXPECT_TRUE(unpack({}).empty());
}

TEST(ChromeTrace, ByHand) {
  Timeline t;
  t.events.push_back({.what = "2F3 \"x\"", .start = {0}, .end = {2e-6}, .rank = 1});
  t.events.push_back({.what = "L00", .start = {0}, .end = {1e-6}, .rank = 1});
  t.events.push_back(
      {.what = "SEND", .start = {2e-6}, .end = {2.5e-6}, .bytes = {8}, .rank = 1, .stream = Stream::kMessages});
  t.flows.push_back({2, 0});
  EXPECT_EQ(
      to_chrome_trace(t),
      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
      "{\"ph\":\"X\",\"name\":\"2F3 \\\"x\\\"\",\"pid\":1,\"tid\":0,\"ts\":0.000,\"dur\":2.000},\n"
      "{\"ph\":\"X\",\"name\":\"L00\",\"pid\":1,\"tid\":0,\"ts\":0.000,\"dur\":1.000},\n"
      "{\"ph\":\"X\",\"name\":\"SEND\",\"pid\":1,\"tid\":1000,\"ts\":2.000,\"dur\":0.500,\"args\":{\"bytes\":8}},\n"
      "{\"ph\":\"s\",\"cat\":\"message\",\"name\":\"message\",\"id\":1,\"pid\":1,\"tid\":1000,\"ts\":2.000},\n"
      "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"message\",\"name\":\"message\",\"id\":1,\"pid\":1,\"tid\":0,\"ts\":0.000},"
      "\n"
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"rank 1\"}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"compute\"}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1000,\"args\":{\"name\":\"messages\"}}\n"
      "]}\n");
}

TEST(ChromeTrace, SlicesNestWhateverOverlaps) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    Timeline t;
    for (int i = 0; i < 60; ++i) {
      const double start = static_cast<double>(random() % 20), length = static_cast<double>(random() % 9);
      t.events.push_back({.what = "x",
                          .start = {start * 1e-6},
                          .end = {(start + length) * 1e-6},
                          .rank = static_cast<int>(random() % 2),
                          .stream = static_cast<Stream>(random() % 3)});
      if (i > 0) t.flows.push_back({i - 1, i});
    }
    int flows = 0;
    const auto threads = slices_of(to_chrome_trace(t), &flows);
    expect_nested(threads);
    std::size_t seen = 0;
    for (const auto& [at, slices] : threads) seen += slices.size();
    EXPECT_EQ(seen, t.events.size());
    EXPECT_EQ(flows, 59);
  }
}

}  // namespace
}  // namespace sextant
