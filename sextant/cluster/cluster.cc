#include "sextant/cluster/cluster.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "sextant/base/errors.h"
#include "sextant/base/fields.h"
#include "sextant/base/mapped_file.h"

namespace sextant {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12, kMicro = 1e-6, kGiB = 1 << 30;
constexpr int kMostDevices = 1 << 24;

Device read_device(const Value& file, const std::string& name) {
  Fields f(file.find("device"), name, "[device]");
  Device d;
  d.name = f.text("name");
  d.bf16 = f.number("bf16_tflops", 1e-6, 1e6) * kTera;
  d.fp8 = f.number_or("fp8_tflops", 0, 0, 1e6) * kTera;
  d.fp32 = f.number("fp32_tflops", 1e-6, 1e6) * kTera;
  d.matmul_ceiling = f.number("matmul_ceiling", 0.01, 1);
  d.fp8_ceiling = f.number_or("fp8_ceiling", d.matmul_ceiling, 0.01, 1);
  d.attention_ceiling = f.number("attention_ceiling", 0.01, 1);
  d.units = static_cast<int>(f.integer_or("units", 1, 1, 1 << 16));
  const std::vector<double> tile = f.numbers("tile", 2, 1, 1 << 16);
  d.tile = {tile[0], tile[1]};
  d.memory = {static_cast<std::int64_t>(f.number("memory_GiB", 1e-3, 1e6) * kGiB)};
  d.reserve = {static_cast<std::int64_t>(f.number_or("reserve_GiB", 0, 0, 1e6) * kGiB)};
  if (d.reserve >= d.memory) f.fail("reserve_GiB", "is not less than memory_GiB: nothing would be left");
  d.bandwidth = f.number("memory_GBps", 1e-3, 1e6) * kGiga;
  d.call = {f.number_or("call_us", 0, 0, 1e6) * kMicro};
  d.launch = {f.number_or("launch_us", 0, 0, 1e6) * kMicro};
  d.host = {f.number_or("host_us", 0, 0, 1e6) * kMicro};
  d.overlaps = f.one_of_or("overlap", "dma", {"dma", "none"}) == "dma";
  d.jitter = f.number_or("jitter", 0, 0, 1);
  d.interference = f.number_or("interference", 0, 0, 1);
  d.watts = f.number_or("watts", 0, 0, 1e6);
  d.dollars_per_hour = f.number_or("dollars_per_hour", 0, 0, 1e6);
  d.sustained = f.number_or("sustained", d.sustained, 0.01, 1);
  d.memory_share = f.number_or("memory_share", d.memory_share, 0.01, 1);
  d.half_depth = f.number_or("half_depth", d.half_depth, 0, 1e5);
  f.finish();
  return d;
}

// "swiglu F" is written swiglu_F, "residual+rmsnorm F" residual-rmsnorm_F.
std::string key_of(std::string rate) {
  std::replace(rate.begin(), rate.end(), ' ', '_');
  std::replace(rate.begin(), rate.end(), '+', '-');
  return rate;
}
std::string rate_of(std::string key) {
  const auto last = key.rfind('_');
  if (last != std::string::npos && last + 2 == key.size()) key[last] = ' ';
  std::replace(key.begin(), key.end(), '-', '+');
  return key;
}

void read_rates(const Value& file, const std::string& name, Device& d) {
  const Value* section = file.find("kernels");
  if (!section) return;
  Fields f(section, name, "[kernels]");
  for (const Member& m : std::get<Value::Object>(section->data))
    d.rates[rate_of(m.key)] = f.number(m.key, 1e-6, 1e9) * kGiga;
  f.finish();
}

Level read_level(const Value& file, const std::string& level, const std::string& name) {
  Fields f(file.find(level), name, "[" + level + "]");
  Level l;
  l.name = level;
  if (f.has("shape")) {
    std::int64_t size = 1;
    for (const std::int64_t n : f.integers("shape", 1, 1 << 12)) {
      l.shape.push_back(static_cast<int>(n));
      if ((size *= n) > kMostDevices) f.fail("shape", str("has more than ", kMostDevices, " devices"));
    }
    if (l.shape.empty() || l.shape.size() > 4) f.fail("shape", "has between one and four axes");
    l.size = static_cast<int>(size);
    l.link = f.number("link_GBps", 1e-6, 1e6) * kGiga;
    l.bandwidth = l.link * 2 * static_cast<double>(l.shape.size());
    l.wrap = static_cast<int>(f.integer_or("wrap", 1, 1, 1 << 12));
    l.hop = {f.number("hop_us", 0, 1e6) * kMicro};
    l.latency.fill(l.hop);
  } else {
    f.known("shape");
    l.size = static_cast<int>(f.integer("size", 1, kMostDevices));
    l.bandwidth = f.number("bandwidth_GBps", 1e-6, 1e6) * kGiga;
    l.pair = f.number_or("pair_GBps", 0, 0, 1e6) * kGiga;
    l.in_network = f.number_or("in_network", 0, 0, 2);
    l.in_network_least = static_cast<int>(f.integer_or("in_network_least", 2, 2, kMostDevices));
    const std::vector<double> latency = f.numbers("latency_us", 3, 0, 1e7);
    for (std::size_t i = 0; i < 3; ++i) l.latency[i] = {latency[i] * kMicro};
  }
  l.all_reduce = f.number_or("all_reduce", 1, 0.01, 2);
  l.all_gather = f.number_or("all_gather", 1, 0.01, 2);
  l.all_to_all = f.number_or("all_to_all", 1, 0.01, 2);
  f.finish();
  return l;
}

}  // namespace

Cluster read_cluster(const std::string& text, const std::string& file) {
  const Value value = parse_run_file(text, file);
  Fields f(value.find("cluster"), file, "[cluster]");
  Cluster c;
  c.name = std::filesystem::path(file).stem().string();
  const std::vector<std::string> names = f.texts("levels");
  if (names.empty() || names.size() > Cluster::kMostLevels)
    f.fail("levels", str("names the levels of the network, inner to outer: between one and ", Cluster::kMostLevels));
  f.finish();
  c.device = read_device(value, file);
  read_rates(value, file, c.device);
  for (const std::string& level : names) {
    if (level == "cluster" || level == "device" || level == "kernels" ||
        std::count(names.begin(), names.end(), level) > 1)
      f.fail("levels", str(printable(level, 40), " is taken; give each level a name of its own"));
    c.levels.push_back(read_level(value, level, file));
    if (c.levels.size() > 1 && c.levels.back().size % c.levels[c.levels.size() - 2].size != 0)
      f.fail("levels", str("[", level, "] joins ", c.levels.back().size, " devices, no multiple of the ",
                           c.levels[c.levels.size() - 2].size, " of [", names[c.levels.size() - 2], "] within it"));
    if (c.levels.size() > 1 && c.levels.back().is_torus())
      f.fail("levels", str("[", level, "] is a torus; only the innermost level can be one"));
  }
  for (const Member& m : std::get<Value::Object>(value.data)) {
    std::vector<std::string> known{"cluster", "device", "kernels"};
    known.insert(known.end(), names.begin(), names.end());
    if (std::find(known.begin(), known.end(), m.key) != known.end()) continue;
    const std::string near = nearest(m.key, known);
    throw InvalidInput(str(printable(file), ":", m.value.line, ":", m.value.column, ": [", printable(m.key, 60),
                           "]: no level of this name in [cluster] levels",
                           near.empty() ? "; sections are " + join(known, ", ") : "; did you mean " + near + "?"));
  }
  return c;
}

std::string to_text(const Cluster& c, const std::vector<std::string>& notes) {
  std::ostringstream out;
  for (const std::string& note : notes) out << "# " << note << "\n";
  std::vector<std::string> names;
  for (const Level& l : c.levels) names.push_back("\"" + l.name + "\"");
  const Device& d = c.device;
  out << "\n[cluster]\nlevels = [" << join(names, ", ") << "]\n\n[device]\nname = \"" << d.name
      << "\"\nbf16_tflops = " << d.bf16 / kTera << "\n";
  if (d.fp8 > 0) out << "fp8_tflops = " << d.fp8 / kTera << "\nfp8_ceiling = " << d.fp8_ceiling << "\n";
  out << "fp32_tflops = " << d.fp32 / kTera << "\nmatmul_ceiling = " << d.matmul_ceiling
      << "\nattention_ceiling = " << d.attention_ceiling << "\nunits = " << d.units << "\ntile = [" << d.tile[0] << ", "
      << d.tile[1] << "]\nmemory_GiB = " << static_cast<double>(d.memory.value) / kGiB
      << "\nreserve_GiB = " << static_cast<double>(d.reserve.value) / kGiB << "\nmemory_GBps = " << d.bandwidth / kGiga
      << "\nlaunch_us = " << d.launch.value / kMicro << "\nhost_us = " << d.host.value / kMicro
      << "\ncall_us = " << d.call.value / kMicro << "\nsustained = " << d.sustained
      << "\nmemory_share = " << d.memory_share << "\nhalf_depth = " << d.half_depth << "\noverlap = \""
      << (d.overlaps ? "dma" : "none") << "\"\ninterference = " << d.interference << "\njitter = " << d.jitter << "\n";
  if (d.watts > 0) out << "watts = " << d.watts << "\n";
  if (d.dollars_per_hour > 0) out << "dollars_per_hour = " << d.dollars_per_hour << "\n";
  if (!d.rates.empty()) out << "\n[kernels]\n";
  for (const auto& [rate, value] : d.rates) out << key_of(rate) << " = " << value / kGiga << "\n";
  for (const Level& l : c.levels) {
    out << "\n[" << l.name << "]\n";
    if (l.is_torus()) {
      std::vector<std::string> axes;
      for (const int n : l.shape) axes.push_back(std::to_string(n));
      out << "shape = [" << join(axes, ", ") << "]\nlink_GBps = " << l.link / kGiga << "\nwrap = " << l.wrap
          << "\nhop_us = " << l.hop.value / kMicro << "\n";
    } else {
      out << "size = " << l.size << "\nbandwidth_GBps = " << l.bandwidth / kGiga << "\n";
      if (l.pair > 0) out << "pair_GBps = " << l.pair / kGiga << "\n";
      if (l.in_network > 0)
        out << "in_network = " << l.in_network << "\nin_network_least = " << l.in_network_least << "\n";
      out << "latency_us = [" << l.latency[0].value / kMicro << ", " << l.latency[1].value / kMicro << ", "
          << l.latency[2].value / kMicro << "]\n";
    }
    out << "all_reduce = " << l.all_reduce << "\nall_gather = " << l.all_gather << "\nall_to_all = " << l.all_to_all
        << "\n";
  }
  return out.str();
}

Cluster find_cluster(const std::string& name) {
  std::vector<std::string> names;
  for (const ClusterPreset& p : cluster_presets()) {
    if (p.name == name) return read_cluster(p.text, name);
    names.push_back(p.name);
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name, ignored)) return read_cluster(read_file(name, 1 << 20), name);
  const std::string near = nearest(name, names);
  throw InvalidInput(str("no cluster ", printable(name, 60), near.empty() ? "" : "; did you mean " + near + "?",
                         "; presets: ", join(names, ", "), "; or the path of a cluster file)"));
}

}  // namespace sextant
