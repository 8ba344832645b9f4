#include <fcntl.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "cli/cli.h"
#include "sextant/runtime/comm/mpi.h"
#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant::cli {
namespace {

// What was looked at, and what to do where something is amiss.
class Findings {
 public:
  explicit Findings(std::ostream& out) : out_(out) {}
  void good(const std::string& what, const std::string& found) { line("ok  ", what, found); }
  void bad(const std::string& what, const std::string& found, const std::string& remedy) {
    line("!!  ", what, found);
    out_ << "      " << remedy << "\n";
    Value v;
    v.set("what", what);
    v.set("found", found);
    v.set("remedy", remedy);
    problems_.push_back(std::move(v));
  }
  void set(const std::string& key, Value value) { values_.set(key, std::move(value)); }
  Value values() {
    values_.set("problems", problems_);
    return values_;
  }
  bool all_good() const { return problems_.empty(); }

 private:
  void line(const char* mark, const std::string& what, const std::string& found) {
    char text[64];
    std::snprintf(text, sizeof text, "%s%-22s", mark, what.c_str());
    out_ << text << found << std::endl;
  }
  std::ostream& out_;
  Value values_{Value::Object{}};
  Value::Array problems_;
};

std::string first_line(const std::string& command, int& code) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return code = -1, out;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe)) out += buffer;
  const int status = ::pclose(pipe);
  code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out.substr(0, out.find('\n'));
}

std::set<std::string> cpu_flags(std::string& model) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1), value = line.substr(colon + 2);
    if (key == "model name") model = value;
    if (key != "flags" && key != "Features") continue;
    std::istringstream words(value);
    for (std::string word; words >> word;) flags.insert(word);
  }
  return flags;
}

Bytes memory_line(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> key >> kib && key == wanted) return {kib * 1024};
  }
  return {};
}

void look_at_processor(Findings& f, int cores) {
  std::string model = "unknown";
  const std::set<std::string> flags = cpu_flags(model);
  std::string vectors;
  for (const char* flag : {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve"})
    if (flags.contains(flag)) vectors += (vectors.empty() ? "" : " ") + std::string(flag);
  f.good("processor", str(model, ", ", cores, cores == 1 ? " core" : " cores", " for this process"));
  f.set("processor", model);
  f.set("cores", cores);
  f.set("vector_instructions", vectors);
  if (vectors.empty())
    f.bad("vector instructions", "none of AVX2, AVX-512, NEON", "products will be slow; use a newer machine");
  else
    f.good("vector instructions", vectors);
  if (double load[1] = {}; ::getloadavg(load, 1) == 1 && load[0] > 0.5 * cores)
    f.bad("load", str(load[0], " processes want ", cores, " cores"),
          "what follows is measured low; end other work first");
}

void look_at_speed(Findings& f, int cores) {
  const double one = measured_peak_flops(1), all = measured_peak_flops(cores);
  const double product = measured_product_flops(cores), bandwidth = measured_bandwidth(cores);
  f.good("multiply-adds",
         str(human(one, "FLOP/s"), " on one core, ", human(all, "FLOP/s"), " on ", cores, " (float32)"));
  const std::string share =
      str(human(product, "FLOP/s"), " by ", gemm_library(), ", ", std::lround(100 * product / all), "% of that");
  if (product < 0.5 * all)
    f.bad("matrix product", share,
          std::string_view(gemm_library()) == "portable"
              ? "apt-get install libdnnl-dev, and build with SEXTANT_ONEDNN=ON"
              : "other work holds the cores; end it and look again");
  else
    f.good("matrix product", share);
  f.good("memory bandwidth",
         str(human(bandwidth, "B/s"), " read and written on ", cores, cores == 1 ? " core" : " cores"));
  f.set("peak_flops_per_s", all);
  f.set("peak_flops_per_s_one_core", one);
  f.set("product_flops_per_s", product);
  f.set("bandwidth_bytes_per_s", bandwidth);
}

void look_at_memory(Findings& f) {
  const Bytes total = memory_line("MemTotal:"), free = memory_line("MemAvailable:");
  const std::string text = str(human(total), ", ", human(free), " free");
  if (free.value * 4 < total.value)
    f.bad("memory", text, "end other programs, or use smaller models");
  else
    f.good("memory", text);
  f.set("memory_bytes", total.value);
  f.set("free_memory_bytes", free.value);
  struct statvfs disk {};
  if (::statvfs(".", &disk) == 0) {
    const Bytes left{static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize)};
    constexpr std::int64_t kLittle = std::int64_t{5} << 30;
    if (left.value < kLittle)
      f.bad("disk", human(left) + " free in this folder",
            "weights of 1.2 G parameters take 5 GB; free some, or work elsewhere");
    else
      f.good("disk", human(left) + " free in this folder");
    f.set("free_disk_bytes", left.value);
  }
}

void look_at_mpi(Findings& f) {
  f.set("mpi_built", has_mpi());
  if (!has_mpi())
    return f.bad("processes as ranks", "this sextant was built without MPI",
                 "apt-get install libopenmpi-dev openmpi-bin, then cmake --preset release -DSEXTANT_MPI=ON");
  if (mpi_process()) return f.good("mpirun", "started this process");
  int code = 0;
  const std::string version = first_line("mpirun --version 2>/dev/null", code);
  if (code != 0 || version.empty())
    return f.bad("mpirun", "not found", "apt-get install openmpi-bin   (ranks as threads work without it)");
  f.set("mpirun", version);
  for (const MpiSetting& s : mpi_settings()) ::setenv(s.name, s.value, 0);
  constexpr int kTimedOut = 124;
  char self[4096] = {};
  if (::readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return;
  const auto start = std::chrono::steady_clock::now();
  ::setenv("SEXTANT_SELF", self, 1);  // whatever is in its name
  const std::string said = first_line("timeout -k 1 15 mpirun -n 2 \"$SEXTANT_SELF\" --version 2>&1 </dev/null", code);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (code != 0)
    return f.bad("mpirun",
                 str(version, ", but it starts no ranks",
                     code == kTimedOut ? std::string(": it did not end within 15 s")
                     : said.empty()    ? str(": it ended with code ", code)
                                       : ": " + printable(said, 160)),
                 "see what 'mpirun -n 2 sextant --version' says, with the settings of 'sextant train --backend mpi'");
  char time[32];
  std::snprintf(time, sizeof time, "%.2f s", seconds);
  f.good("mpirun", str(version, "; two ranks start and end in ", time));
  f.set("mpi_start_s", seconds);
  std::ifstream ptrace("/proc/sys/kernel/yama/ptrace_scope");
  if (int scope = 0; ptrace >> scope && scope >= 2)
    f.bad(
        "shared memory",
        str("ptrace_scope is ", scope, ": ranks of one node cannot map each other's memory and send messages instead"),
        "sysctl kernel.yama.ptrace_scope=1");
  else
    f.good("shared memory", "ranks of one node reach each other's memory");
}

int run_doctor(const Arguments& a) {
  a.at_most_words(0);
  require_json(a, {});
  cpu_set_t set;
  const int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const auto json = a.value("--json");
  std::ostream& out = json && json->empty() ? std::cerr : std::cout;
  Findings f(out);
  look_at_processor(f, cores);
  look_at_memory(f);
  look_at_speed(f, cores);
  look_at_mpi(f);
  out << (f.all_good() ? "\nNothing is missing.\n" : "\nWhat is marked !! can be mended as said.\n");
  write_json(a, f.values());
  return 0;
}

}  // namespace

const Command doctor = {
    "doctor",
    "",
    "Looks at this machine: what it can do, what is missing, and how to mend it.",
    {{"--json", "[=FILE]", "the findings as JSON"}},
    "Takes about five seconds. Speeds are measured, so other work on the machine makes them lower.\n",
    run_doctor};

}  // namespace sextant::cli
