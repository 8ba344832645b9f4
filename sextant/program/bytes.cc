#include "sextant/base/errors.h"
#include "sextant/program/program.h"

namespace sextant {

Bytes StepBytes::total() const {
  Bytes sum = messages;
  for (const Bytes b : by_group) sum += b;
  return sum;
}

StepBytes StepBytes::operator*(std::int64_t steps) const {
  StepBytes out = *this;
  for (Bytes& b : out.by_group) b = b * steps;
  out.messages = messages * steps;
  return out;
}

Bytes all_reduce_bytes(std::int64_t count, DType dtype, int n, int i) {
  if (n == 1) return {};
  const std::int64_t own = slice_of(count, n, i).size();
  return Bytes{((n - 1) * own + count - own) * size_of(dtype)};
}

namespace {

// What a rank receives over each axis in a pass of a unit.
void add_traffic(StepBytes& bytes, const Unit& unit, const std::vector<Step>& steps, const MeshSizes& mesh,
                 const Coordinates& at) {
  for (const NamedTraffic& named : traffic(unit, steps, mesh)) {
    const Traffic& t = named.traffic;
    Bytes& sum = bytes[group_along(t.axis)];
    if (t.kind != CollectiveKind::kAllReduce) {
      sum += t.bytes;  // slices are equal
      continue;
    }
    const std::int64_t part = (t.rows + t.calls - 1) / t.calls;
    for (std::int64_t begin = 0; begin < t.rows; begin += part)
      sum += all_reduce_bytes(std::min(part, t.rows - begin) * t.per_row, t.dtype, mesh[t.axis],
                              place_on(t.axis, at, mesh));
  }
}

}  // namespace

StepBytes promised_bytes(const Program& program, int pp, const Coordinates& at) {
  StepBytes bytes;
  const MeshSizes& mesh = program.mesh;
  const RankProgram& rank = program.by_pp.at(static_cast<std::size_t>(pp));
  const auto all_reduce = [&](Group group, std::int64_t count, DType dtype, int n, int place) {
    bytes[group] += all_reduce_bytes(count, dtype, n, place);
  };
  // Of each unit once for F, I and W; then as often as it runs.
  std::vector<std::array<StepBytes, 3>> of_pass(rank.units.size());
  for (std::size_t u = 0; u < rank.units.size(); ++u) {
    add_traffic(of_pass[u][0], rank.units[u], rank.units[u].f, mesh, at);
    add_traffic(of_pass[u][1], rank.units[u], rank.units[u].i, mesh, at);
    add_traffic(of_pass[u][2], rank.units[u], rank.units[u].w, mesh, at);
  }
  for (const Instruction& i : rank.code) {
    const Bucket* bucket = i.bucket >= 0 ? &rank.buckets[static_cast<std::size_t>(i.bucket)] : nullptr;
    // The ranks that share a bucket, and this one's shard of it.
    const Group zero = zero_group(bucket ? bucket->grid : Grid::kDense);
    const int shards = size_of(zero, mesh), place = place_in(zero, at, mesh);
    const Slice shard = bucket ? slice_of(bucket->elements, shards, place) : Slice{};
    switch (i.code) {
      case Code::kCountTokens:
        all_reduce(Group::kData, kCountValues, DType::kF64, size_of(Group::kData, mesh),
                   place_in(Group::kData, at, mesh));
        break;
      case Code::kGradNorm: {
        // The world counts pipeline coordinates inside of everything but dp (rank order "tp cp dp pp"): pp outermost.
        const int in_world =
            pp * mesh.num_ranks() +
            ((at.dp_replicate * mesh[Axis::kDpShard] + at.dp_shard) * mesh[Axis::kCp] + at.cp) * mesh[Axis::kTp] +
            at.tp;
        all_reduce(Group::kWorld, kNormValues, DType::kF64, program.num_ranks(), in_world);
        break;
      }
      case Code::kReduce:
        if (program.zero_of(*bucket) == 0)
          all_reduce(zero, bucket->elements, program.gradient_dtype, shards, place);
        else
          bytes[zero] += Bytes{(shards - 1) * shard.size() * size_of(program.gradient_dtype)};
        break;
      case Code::kUnshard:
      case Code::kGatherParams:
        bytes[zero] += Bytes{(bucket->elements - shard.size()) * size_of(program.dtype)};
        break;
      case Code::kReduceRest:
        for (const RestSum& sum : bucket->rest) {
          const Slice held = program.zero_of(*bucket) > 0 ? shard : Slice{0, bucket->elements};
          const std::int64_t count =
              std::max<std::int64_t>(0, std::min(sum.end, held.end) - std::max(sum.begin, held.begin));
          int n = 0, at_place = 0;
          if (sum.group == Group::kHolders) {
            n = static_cast<int>(bucket->holders.size());
            while (bucket->holders[static_cast<std::size_t>(at_place)] != pp) ++at_place;
          } else if (sum.group == Group::kCopies) {
            n = sum.copies, at_place = at.tp % sum.copies;
          } else {
            n = size_of(sum.group, mesh), at_place = place_in(sum.group, at, mesh);
          }
          all_reduce(sum.group, count, program.gradient_dtype, n, at_place);
        }
        break;
      case Code::kRun: {
        const auto add = [&](Pass pass) {
          const StepBytes& b = of_pass[static_cast<std::size_t>(i.unit)][static_cast<std::size_t>(pass)];
          for (std::size_t g = 0; g < b.by_group.size(); ++g) bytes.by_group[g] += b.by_group[g];
        };
        add(i.pass);
        if (i.fused) add(Pass::kW);
        break;
      }
      case Code::kRecv:
        bytes.messages += local_bytes(
            rank.units[static_cast<std::size_t>(i.unit)].slots[static_cast<std::size_t>(message_slot(rank, i))].spec,
            mesh);
        break;
      case Code::kReshard:
      case Code::kSend:
      case Code::kWait:
      case Code::kDecide:
      case Code::kOptStep:
        break;
    }
  }
  return bytes;
}

}  // namespace sextant
