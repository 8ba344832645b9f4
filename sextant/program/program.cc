#include "sextant/program/program.h"

#include <algorithm>

#include "sextant/base/errors.h"

namespace sextant {

std::string_view name_of(Code code) {
  constexpr std::string_view names[] = {"COUNT_TOKENS", "RUN",       "REDUCE", "WAIT",
                                        "REDUCE_REST",  "GRAD_NORM", "DECIDE", "OPT_STEP"};
  return names[static_cast<std::size_t>(code)];
}

std::string_view name_of(Group group) {
  constexpr std::string_view names[] = {"dp_shard·cp", "dp_replicate", "data"};
  return names[static_cast<std::size_t>(group)];
}

int size_of(Group group, const MeshSizes& mesh) {
  const int zero = mesh[Axis::kDpShard] * mesh[Axis::kCp], replicas = mesh[Axis::kDpReplicate];
  return group == Group::kZero ? zero : group == Group::kReplicas ? replicas : zero * replicas;
}

namespace {

// Parameters start on a cache line, and a bucket divides into equal slices for the ranks of the zero axes.
constexpr std::int64_t kAlignElements = 16;

// Buckets follow the backward pass: from the last unit to the first, closed once they hold `wanted` bytes.
std::vector<Bucket> make_buckets(const std::vector<Unit>& units, Bytes wanted, const MeshSizes& mesh) {
  std::vector<Bucket> buckets;
  Bytes filled;
  for (int u = static_cast<int>(units.size()) - 1; u >= 0; --u) {
    if (buckets.empty() || (wanted.value > 0 && filled >= wanted)) {
      buckets.push_back({u, u, {}, 0});
      filled = {};
    }
    Bucket& bucket = buckets.back();
    bucket.first_unit = u;
    const auto& parameters = units[static_cast<std::size_t>(u)].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      TensorSpec spec = parameters[p].spec;
      for (const Slot& slot : units[static_cast<std::size_t>(u)].slots)
        if (slot.life == Life::kParameter && slot.spec.name == spec.name) spec = slot.spec;
      const std::int64_t size = local_elements(spec, mesh);
      bucket.parameters.push_back({u, static_cast<int>(p), bucket.elements, size});
      bucket.elements += (size + kAlignElements - 1) / kAlignElements * kAlignElements;
      filled += Bytes{size * size_of(spec.dtype)};
    }
  }
  const std::int64_t unit = kAlignElements * size_of(Group::kZero, mesh);
  for (Bucket& bucket : buckets) bucket.elements = (bucket.elements + unit - 1) / unit * unit;
  return buckets;
}

}  // namespace

Program build_program(const Model& model, const Plan& plan) {
  Program program{.mesh = mesh_of(plan), .num_microbatches = static_cast<int>(plan.num_microbatches)};
  RankProgram rank;
  const LayerSplit split = split_of(plan);
  for (const Layer& layer : model.layers) rank.units.push_back(lower(layer, split));
  program.dtype = model.layers.at(0).parameters.at(0).spec.dtype;
  rank.buckets = make_buckets(rank.units, plan.bucket, program.mesh);

  const int num_units = static_cast<int>(rank.units.size()), num_buckets = static_cast<int>(rank.buckets.size());
  const bool reduces = size_of(Group::kZero, program.mesh) > 1;
  auto& code = rank.code;
  code.push_back({Code::kCountTokens});
  for (int m = 0; m < program.num_microbatches; ++m) {
    for (int u = 0; u < num_units; ++u)
      code.push_back({.code = Code::kRun, .pass = Pass::kF, .unit = u, .microbatch = m});
    int bucket = 0;
    for (int u = num_units - 1; u >= 0; --u) {
      code.push_back({.code = Code::kRun, .pass = Pass::kI, .fused = true, .unit = u, .microbatch = m});
      const bool is_complete =
          m + 1 == program.num_microbatches && rank.buckets[static_cast<std::size_t>(bucket)].first_unit == u;
      if (!is_complete) continue;
      if (reduces) code.push_back({.code = Code::kReduce, .bucket = bucket});
      ++bucket;
    }
  }
  if (reduces)
    for (int b = 0; b < num_buckets; ++b) code.push_back({.code = Code::kWait, .bucket = b});
  if (program.mesh[Axis::kDpReplicate] > 1)
    for (int b = 0; b < num_buckets; ++b) code.push_back({.code = Code::kReduceRest, .bucket = b});
  code.push_back({Code::kGradNorm});
  code.push_back({Code::kDecide});
  code.push_back({Code::kOptStep});
  program.by_pp.push_back(std::move(rank));
  return program;
}

Bytes all_reduce_bytes(std::int64_t count, DType dtype, int n, int i) {
  if (n == 1) return {};
  const std::int64_t own = slice_of(count, n, i).size();
  return Bytes{((n - 1) * own + count - own) * size_of(dtype)};
}

StepBytes promised_bytes(const Program& program, int zero_rank, int replica_rank, int data_rank) {
  StepBytes bytes;
  const int zero = size_of(Group::kZero, program.mesh), replicas = size_of(Group::kReplicas, program.mesh),
            data = size_of(Group::kData, program.mesh);
  const RankProgram& rank = program.by_pp.at(0);
  for (const Instruction& instruction : rank.code) {
    const auto bucket = [&] { return rank.buckets[static_cast<std::size_t>(instruction.bucket)].elements; };
    switch (instruction.code) {
      case Code::kCountTokens:
        bytes.data += all_reduce_bytes(kCountValues, DType::kF64, data, data_rank);
        break;
      case Code::kGradNorm:
        bytes.data += all_reduce_bytes(kNormValues, DType::kF64, data, data_rank);
        break;
      case Code::kReduce:
        bytes.zero += all_reduce_bytes(bucket(), program.dtype, zero, zero_rank);
        break;
      case Code::kReduceRest:
        bytes.replicas += all_reduce_bytes(bucket(), program.dtype, replicas, replica_rank);
        break;
      case Code::kRun: {
        const Unit& unit = rank.units[static_cast<std::size_t>(instruction.unit)];
        check(traffic(unit, instruction.pass == Pass::kF ? unit.f : unit.b(), program.mesh).empty(),
              "only data-parallel programs are promised yet");
        break;
      }
      case Code::kWait:
      case Code::kDecide:
      case Code::kOptStep:
        break;
    }
  }
  return bytes;
}

std::string to_string(const Program& program) {
  std::string out;
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const RankProgram& rank = program.by_pp[pp];
    const auto unit = [&](int u) { return rank.units[static_cast<std::size_t>(u)].name; };
    out += str("pp ", pp, "\n");
    for (std::size_t n = 0; n < rank.code.size();) {
      const Instruction& first = rank.code[n];
      if (first.code == Code::kRun) {
        // Runs of one pass and microbatch stand on one line.
        out += str("  ", pp, first.fused ? "B" : std::string(name_of(first.pass)), first.microbatch, "{");
        for (; n < rank.code.size() && rank.code[n].code == Code::kRun && rank.code[n].pass == first.pass &&
               rank.code[n].microbatch == first.microbatch;
             ++n)
          out += " " + unit(rank.code[n].unit);
        out += " }\n";
        continue;
      }
      out += str("  ", name_of(first.code));
      if (first.bucket >= 0) {
        const Bucket& b = rank.buckets[static_cast<std::size_t>(first.bucket)];
        out += str(" ", unit(b.last_unit), b.first_unit == b.last_unit ? "" : ".." + unit(b.first_unit));
        const Group group = first.code == Code::kReduceRest ? Group::kReplicas : Group::kZero;
        if (first.code != Code::kWait)
          out += str("  all_reduce over ", name_of(group), ", ", b.elements * size_of(program.dtype), " B");
      }
      const int values = first.code == Code::kCountTokens ? kCountValues
                         : first.code == Code::kGradNorm  ? kNormValues
                                                          : 0;
      if (values > 0 && size_of(Group::kData, program.mesh) > 1)
        out += str("  all_reduce over ", name_of(Group::kData), ", ", values * 8, " B");
      out += "\n";
      ++n;
    }
  }
  return out;
}

}  // namespace sextant
