#include "sextant/cluster/cluster.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

std::string message_of(const std::string& text) {
  try {
    read_cluster(text, "c.toml");
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "";
}

TEST(Cluster, EveryPresetIsReadAndWrittenBack) {
  const std::vector<std::string> wanted = {"a100-dgx",    "ascend-910b", "b200-hgx",     "b300-hgx", "cloudmatrix-384",
                                           "gb200-nvl72", "gb300-nvl72", "h100-dgx",     "h200-dgx", "h800-dgx",
                                           "mi300x",      "mi355x",      "this-machine", "tpu-8t",   "tpu-v4",
                                           "tpu-v5e",     "tpu-v5p",     "tpu-v6e",      "tpu-v7",   "two-sites"};
  std::vector<std::string> names;
  for (const ClusterPreset& p : cluster_presets()) {
    names.push_back(p.name);
    const Cluster c = find_cluster(p.name);
    const std::string text = to_text(c, {"again"});
    EXPECT_EQ(to_text(read_cluster(text, p.name), {"again"}), text) << p.name;
    EXPECT_GE(c.most_devices(), c.levels[0].size);
  }
  EXPECT_EQ(names, wanted);
}

TEST(Cluster, EveryNumberOfAPresetHasItsSource) {
  for (const ClusterPreset& p : cluster_presets()) {
    std::istringstream lines(p.text);
    for (std::string line; std::getline(lines, line);)
      if (line.find(" = ") != std::string::npos && line.rfind("name", 0) != 0) {
        EXPECT_NE(line.find("  # "), std::string::npos) << p.name << ": " << line;
      }
  }
}

TEST(Cluster, BadFilesSayWhatIsOff) {
  const std::string good = cluster_presets()[0].text;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return message_of(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(message_of(good), "");
  EXPECT_NE(with("memory_GBps", "memory_gbps").find("memory_GBps"), std::string::npos);
  EXPECT_NE(with("bf16_tflops = 312", "bf16_tflops = 0").find("bf16_tflops"), std::string::npos);
  EXPECT_NE(with("bf16_tflops = 312", "bf16_tflops = nan").find("c.toml:"), std::string::npos);
  EXPECT_NE(with("[fabric]", "[fabrik]").find("fabric"), std::string::npos);
  EXPECT_NE(with("size = 4480", "size = 4481").find("no multiple of the 8"), std::string::npos);
  EXPECT_NE(with("reserve_GiB = 1.5", "reserve_GiB = 90").find("nothing would be left"), std::string::npos);
  try {
    find_cluster("h100-dgk");
    FAIL();
  } catch (const InvalidInput& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean h100-dgx?"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace sextant
