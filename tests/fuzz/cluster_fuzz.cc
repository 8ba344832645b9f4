#include <cmath>
#include <cstdlib>

#include "sextant/base/errors.h"
#include "sextant/cost/network.h"

// A cluster that is accepted has finite prices, and is written and read back as the same text.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    const sextant::Cluster cluster = sextant::read_cluster({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
    const std::string once = sextant::to_text(cluster, {});
    if (sextant::to_text(sextant::read_cluster(once, "fuzz.toml"), {}) != once) std::abort();
    const sextant::Network network(cluster);
    for (const auto kind : {sextant::CollectiveKind::kAllReduce, sextant::CollectiveKind::kAllToAll})
      for (const int ranks : {2, 8, 100}) {
        if (ranks > cluster.most_devices()) continue;
        const double time = network.collective(kind, {1 << 20}, {1, ranks}).time.value;
        if (!std::isfinite(time) || time <= 0) std::abort();
      }
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
