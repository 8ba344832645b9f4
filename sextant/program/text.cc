#include "sextant/base/errors.h"
#include "sextant/program/program.h"

namespace sextant {

std::string action_name(const RankProgram& rank, const Instruction& run) {
  const Stage& stage = rank.stage(run.unit);
  return str(stage.index, stage.is_mirrored ? "'" : "", run.fused ? "B" : name_of(run.pass),
             run.microbatch - stage.first_microbatch);
}

namespace {

std::string message_name(const RankProgram& rank, const Instruction& message) {
  const Stage& stage = rank.stage(message.unit);
  const int to = receiving_stage(rank, message), from = message.pass == Pass::kF ? to - 1 : to + 1;
  const char* mark = stage.is_mirrored ? "'" : "";
  return str(message.pass == Pass::kF ? "act " : "grad ", from, mark, "->", to, mark, " mb",
             message.microbatch - stage.first_microbatch);
}

}  // namespace

std::string to_string(const RankProgram& rank, const Instruction& i) {
  switch (i.code) {
    case Code::kRun:
      return str(action_name(rank, i), " ", rank.units[static_cast<std::size_t>(i.unit)].name);
    case Code::kSend:
      return str("SEND ", message_name(rank, i), " to ", i.peer);
    case Code::kRecv:
      return str("RECV ", message_name(rank, i), " from ", i.peer);
    case Code::kWait: {
      const bool known = i.waits_for >= 0 && i.waits_for < static_cast<std::int32_t>(rank.code.size());
      const Instruction* of = known ? &rank.code[static_cast<std::size_t>(i.waits_for)] : nullptr;
      return of && of->code != Code::kWait ? "WAIT " + to_string(rank, *of) : str("WAIT for instruction ", i.waits_for);
    }
    default: {
      std::string out(name_of(i.code));
      if (i.bucket >= 0) out += " " + rank.buckets[static_cast<std::size_t>(i.bucket)].name;
      return out;
    }
  }
}

namespace {

std::string collective(const Program& program, const RankProgram& rank, const Instruction& i) {
  const auto over = [](const char* what, std::string_view group, std::int64_t bytes) {
    return str("  ", what, " over ", group, ", ", bytes, " B");
  };
  const int data = size_of(Group::kData, program.mesh);
  if (i.code == Code::kCountTokens) return data > 1 ? over("all_reduce", name_of(Group::kData), kCountValues * 8) : "";
  if (i.code == Code::kGradNorm)
    return program.num_ranks() > 1 ? over("all_reduce", name_of(Group::kWorld), kNormValues * 8) : "";
  if (i.code == Code::kSend || i.code == Code::kRecv) {
    const Unit& unit = rank.units[static_cast<std::size_t>(i.unit)];
    const Slot& slot = unit.slots[static_cast<std::size_t>(message_slot(rank, i))];
    return str("  ", local_bytes(slot.spec, program.mesh).value, " B");
  }
  if (i.bucket < 0) return "";
  const Bucket& bucket = rank.buckets[static_cast<std::size_t>(i.bucket)];
  const std::int64_t bytes = bucket.elements * size_of(program.dtype), element = size_of(program.gradient_dtype);
  const std::string_view group = name_of(zero_group(bucket.grid));
  const int zero = program.zero_of(bucket);
  if (i.code == Code::kUnshard || i.code == Code::kGatherParams) return over("all_gather", group, bytes);
  if (i.code == Code::kReduce)
    return over(zero > 0 ? "reduce_scatter" : "all_reduce", group, bucket.elements * element);
  std::string out;
  if (i.code == Code::kReduceRest)
    for (const RestSum& sum : bucket.rest) {
      const std::int64_t share = zero > 0 ? program.shards_of(bucket) : 1;
      std::string where(name_of(sum.group));
      if (sum.group == Group::kHolders) {
        std::vector<std::string> names;
        for (const int h : bucket.holders) names.push_back(std::to_string(h));
        where = "pp " + join(names, ", ");
      } else if (sum.group == Group::kCopies) {
        where = str(sum.copies, " copies");
      }
      out += over("all_reduce", where, (sum.end - sum.begin) * element / share);
    }
  return out;
}

}  // namespace

std::string to_string(const Program& program) {
  std::string out;
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const RankProgram& rank = program.by_pp[pp];
    out += str("pp ", pp, "\n");
    for (std::size_t n = 0; n < rank.code.size();) {
      const Instruction& first = rank.code[n];
      if (first.code != Code::kRun) {
        out += str("  ", to_string(rank, first), collective(program, rank, first), "\n");
        ++n;
        continue;
      }
      // Runs of one action stand on one line.
      const std::string action = action_name(rank, first);
      out += str("  ", action, "{");
      for (; n < rank.code.size() && rank.code[n].code == Code::kRun && action_name(rank, rank.code[n]) == action; ++n)
        out += " " + rank.units[static_cast<std::size_t>(rank.code[n].unit)].name;
      out += str(" }", first.pair >= 0 ? str(" pair ", first.pair) : "", "\n");
    }
  }
  return out;
}

}  // namespace sextant
