#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "sextant/base/errors.h"
#include "sextant/plan/pipeline_parallel.h"
#include "sextant/planner/planner.h"

namespace sextant {
namespace {

// What a unit costs, split in one way, for one microbatch on one rank.
struct UnitCost {
  double f = 0, i = 0, w = 0, b = 0;  // seconds
  double kept = 0;                    // bytes from F to the end of its backward pass, its input included
  double elements = 0;                // dense parameters on a rank
  double experts = 0;                 // parameters of experts
};
struct SplitCost {
  std::vector<UnitCost> classes;  // of the model's distinct layers
  double message = 0;             // seconds from a stage to the next
};

}  // namespace

struct Estimator::Tables {
  const Request& request;
  const Space& space;
  const Network network;
  std::vector<int> class_of;  // of units: embedding, layers, head
  std::vector<SplitCost> splits;
  std::size_t num_sizes = 0;
  /// Bytes of an element.
  const double parameter, gradient, state;

  Tables(const Request& r, const Space& s)
      : request(r),
        space(s),
        network(r.cluster),
        parameter(static_cast<double>(size_of(r.workload.dtype))),
        gradient(static_cast<double>(size_of(statistic_of(r.workload.dtype)))),
        state(static_cast<double>(adamw_state(r.workload.dtype).value)) {
    // Embedding, head, and each kind of layer once.
    std::vector<int> kinds{-1, -2};
    std::vector<std::size_t> representative{0, static_cast<std::size_t>(r.model.layers) + 1};
    class_of.push_back(0);
    for (int layer = 0; layer < r.model.layers; ++layer) {
      const auto found = std::find(kinds.begin(), kinds.end(), r.model.layer_kind(layer));
      class_of.push_back(static_cast<int>(found - kinds.begin()));
      if (found != kinds.end()) continue;
      kinds.push_back(r.model.layer_kind(layer));
      representative.push_back(static_cast<std::size_t>(layer) + 1);
    }
    class_of.push_back(1);
    num_sizes = s.microbatch_sizes.size();
    splits.resize(s.tp.size() * s.cp.size() * s.ep.size() * s.etp.size() * num_sizes * s.recomputes.size());
    for (std::size_t b = 0; b < num_sizes; ++b) {
      Models models;
      for (std::size_t t = 0; t < s.tp.size(); ++t)
        for (std::size_t c = 0; c < s.cp.size(); ++c)
          for (std::size_t e = 0; e < s.ep.size(); ++e)
            for (std::size_t x = 0; x < s.etp.size(); ++x) {
              Candidate split;
              split.tp = s.tp[t], split.cp = s.cp[c], split.ep = s.ep[e], split.etp = s.etp[x];
              split.dp = least_dp(split), split.microbatch_size = static_cast<std::int32_t>(s.microbatch_sizes[b]);
              if (std::int64_t{split.tp} * split.cp * split.dp > r.devices ||
                  r.workload.sequence % (std::int64_t{split.tp} * split.cp) != 0)
                continue;
              const Model& model = models.of(*this, split);
              for (std::size_t k = 0; k < s.recomputes.size(); ++k)
                fill(splits[index(t, c, e, x, b, k)], e + x > 0 ? &splits[index(t, c, 0, 0, b, k)] : nullptr, model,
                     representative, split, s.recomputes[k]);
            }
    }
  }

  // Data-parallel ranks that make dp x cp x tp a multiple of ep x etp.
  static std::int32_t least_dp(const Candidate& c) { return c.ep * c.etp / std::gcd(c.ep * c.etp, c.tp * c.cp); }

  // The model with the sizes of one microbatch over all data-parallel ranks.
  struct Models {
    std::map<std::int32_t, Model> by_dp;
    const Model& of(const Tables& t, const Candidate& c) {
      const auto found = by_dp.find(c.dp);
      if (found != by_dp.end()) return found->second;
      const Workload& w = t.request.workload;
      const Sizes sizes{std::int64_t{c.microbatch_size} * c.dp, w.sequence, w.dtype};
      return by_dp.emplace(c.dp, build_model(t.request.model, sizes)).first->second;
    }
  };

  const SplitCost* find(const Candidate& c) const {
    const auto place = [](const auto& list, auto value) {
      return static_cast<std::size_t>(std::find(list.begin(), list.end(), value) - list.begin());
    };
    const std::size_t t = place(space.tp, c.tp), p = place(space.cp, c.cp), e = place(space.ep, c.ep),
                      x = place(space.etp, c.etp), b = place(space.microbatch_sizes, std::int64_t{c.microbatch_size});
    if (t == space.tp.size() || p == space.cp.size() || e == space.ep.size() || x == space.etp.size() || b == num_sizes)
      return nullptr;
    return &splits[index(t, p, e, x, b, static_cast<std::size_t>(c.recompute))];
  }

  std::size_t index(std::size_t t, std::size_t c, std::size_t e, std::size_t x, std::size_t b, std::size_t k) const {
    return ((((t * space.cp.size() + c) * space.ep.size() + e) * space.etp.size() + x) * num_sizes + b) *
               space.recomputes.size() +
           k;
  }

  // `known`: the same with other degrees of the experts; layers without experts cost what they cost there.
  void fill(SplitCost& out, const SplitCost* known, const Model& model, const std::vector<std::size_t>& representative,
            const Candidate& c, const Recompute& recompute) {
    const Plan plan = plan_of(c, space);
    if (known && !known->classes.empty()) out.message = known->message;
    for (const std::size_t unit_index : representative) {
      const Layer& layer = model.layers[unit_index];
      const std::size_t at = out.classes.size();
      if (known && at < known->classes.size() && known->classes[at].experts == 0) {
        out.classes.push_back(known->classes[at]);
        continue;
      }
      LayerSplit split = split_of(plan);
      if (layer.index >= 0) split.recompute = recompute;
      const Unit unit = lower(layer, split);
      const UnitPrice price = price_unit(unit, split.mesh, statistic_of(request.workload.dtype), network);
      UnitCost cost{price[0].total().value, price[1].total().value, price[2].total().value, price[3].total().value};
      for (std::size_t slot = 0; slot < unit.slots.size(); ++slot)
        if (unit.slots[slot].life == Life::kKept || static_cast<int>(slot) == unit.input)
          cost.kept += static_cast<double>(local_bytes(unit.slots[slot].spec, split.mesh).value);
      for (const Slot& slot : unit.slots)
        if (slot.life == Life::kParameter)
          (slot.spec.grid == Grid::kExpert ? cost.experts : cost.elements) +=
              static_cast<double>(local_elements(slot.spec, split.mesh));
      out.classes.push_back(cost);
      if (unit.output >= 0)
        out.message = network
                          .message(local_bytes(unit.slots[static_cast<std::size_t>(unit.output)].spec, split.mesh),
                                   std::max(1, c.tp * c.cp))
                          .value;
    }
  }
};

Estimator::Estimator(const Request& request, const Space& space) : tables_(std::make_unique<Tables>(request, space)) {}
Estimator::~Estimator() = default;

namespace {

// Parameters on a rank: of layers, and of experts, which have zero axes of their own.
struct Elements {
  double dense = 0, experts = 0;
  bool operator==(const Elements&) const = default;
};

// A run of units, or all that a coordinate holds: sums over its units.
struct Chunk {
  double f = 0, b = 0, i = 0, w = 0, kept = 0;
  Elements elements, largest, gathered;  // largest of a unit; gathered: what a pass gathers at least (ZeRO 3)

  void add(const UnitCost& unit) {
    f += unit.f, b += unit.b, i += unit.i, w += unit.w, kept += unit.kept;
    elements.dense += unit.elements, elements.experts += unit.experts;
    largest.dense = std::max(largest.dense, unit.elements), largest.experts = std::max(largest.experts, unit.experts);
  }
  void add(const Chunk& chunk) {
    // A pass finds at most so many of its buckets gathered already: Plan::live_units, with a bucket of each grid.
    const double live = chunk.elements.experts > 0 ? 4 : 2;
    f += chunk.f, b += chunk.b, i += chunk.i, w += chunk.w, kept += chunk.kept;
    elements.dense += chunk.elements.dense, elements.experts += chunk.elements.experts;
    largest.dense = std::max(largest.dense, chunk.largest.dense);
    largest.experts = std::max(largest.experts, chunk.largest.experts);
    gathered.dense += std::max(0.0, chunk.elements.dense - live * chunk.largest.dense);
    gathered.experts += std::max(0.0, chunk.elements.experts - live * chunk.largest.experts);
  }
};

constexpr int kMostChunks = 512;
using Chunks = std::array<Chunk, kMostChunks>;

// As balanced_stages deals them out: the first and the last stage get one more, then inwards.
void fill(Chunks& chunks, int num_chunks, const std::vector<int>& class_of, const SplitCost& split) {
  const int units = static_cast<int>(class_of.size()), least = units / num_chunks, more = units % num_chunks;
  int unit = 0;
  for (int s = 0; s < num_chunks; ++s) {
    const int turn = std::min(2 * s, 2 * (num_chunks - 1 - s) + 1);
    Chunk& chunk = chunks[static_cast<std::size_t>(s)] = {};
    for (const int end = unit + least + (turn < more ? 1 : 0); unit < end; ++unit)
      chunk.add(split.classes[static_cast<std::size_t>(class_of[static_cast<std::size_t>(unit)])]);
  }
}

// Chunks of microbatches that a coordinate holds at once, at least.
double live_chunks(const Candidate& c, int coordinate, bool is_v_shaped) {
  if (c.virtual_stages == 1) return std::min(c.num_microbatches, c.pp - coordinate);
  if (is_v_shaped) return std::min(2 * c.num_microbatches, c.pp);
  return std::min(c.num_microbatches * c.virtual_stages,
                  (c.virtual_stages - 1) * std::min(c.pp, c.num_microbatches) + 2 * (c.pp - 1 - coordinate) + 1);
}

}  // namespace

// Collectives of a candidate's zero groups. Most coordinates hold as much as the one before: the same again.
class Estimator::Collectives {
 public:
  Collectives(const Tables& tables, const Candidate& c) : tables_(tables), c_(c) {}

  struct Times {
    double gather = 0;  // of all parameters once
    double stream = 0;  // all that the stream of collectives has to hold in a step
    double rest = 0;    // sums over replicas
  };
  const Times& of(const Chunk& held) {
    if (held.elements == elements_) return times_;
    elements_ = held.elements, times_ = {};
    add(held.elements.dense, held.gathered.dense, {c_.tp, c_.shards()});
    if (held.elements.experts > 0)
      add(held.elements.experts, held.gathered.experts, {c_.ep * c_.etp, c_.expert_shards()});
    return times_;
  }

 private:
  void add(double elements, double gathered, RankGroup group) {
    const auto time = [&](CollectiveKind kind, double n, double element) {
      return tables_.network.collective(kind, {static_cast<std::int64_t>(n * element)}, group).time.value;
    };
    const auto reduce = [&](double n) {
      return time(c_.zero == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter, n, tables_.gradient);
    };
    const double passes = static_cast<double>(c_.num_microbatches) * c_.virtual_stages;
    if (group.size > 1) {
      const double gather = time(CollectiveKind::kAllGather, elements, tables_.parameter);
      times_.gather += gather;
      // With ZeRO 2 a reduction for each microbatch, with ZeRO 3 gathers for each pass through a chunk too.
      times_.stream += c_.zero >= 2 ? passes * reduce(elements / c_.virtual_stages) : reduce(elements);
      if (c_.zero == 3)
        times_.stream += gather + std::max(0.0, 2 * passes - 2) *
                                      time(CollectiveKind::kAllGather, gathered / c_.virtual_stages, tables_.parameter);
    }
    if (c_.replicas > 1)
      times_.rest += tables_.network
                         .collective(CollectiveKind::kAllReduce,
                                     {static_cast<std::int64_t>(elements / group.size * tables_.gradient)},
                                     {group.stride * group.size, c_.replicas})
                         .time.value;
  }

  const Tables& tables_;
  const Candidate& c_;
  Elements elements_{-1, -1};
  Times times_;
};

bool Estimator::price(Candidate& c) const {
  const Tables& t = *tables_;
  const SplitCost* split = t.find(c);
  const int num_chunks = c.pp * c.virtual_stages, units = static_cast<int>(t.class_of.size());
  if (!split || split->classes.empty() || num_chunks > std::min(units, kMostChunks)) return false;
  const std::string& kind = t.space.schedules[static_cast<std::size_t>(c.schedule)];
  const bool is_v_shaped = kind == "zb-v", splits_b = kind.substr(0, 2) == "zb";
  const Device& device = t.request.cluster.device;
  const DType dtype = t.request.workload.dtype;
  const double shards = c.shards(), expert_shards = c.expert_shards(), M = c.num_microbatches;

  const double interference = device.overlaps ? device.interference : 0;
  static thread_local Chunks chunks;
  fill(chunks, num_chunks, t.class_of, *split);
  const auto backward = [&](const Chunk& chunk) { return splits_b ? chunk.i : chunk.b; };
  Collectives collectives(t, c);
  // One microbatch runs through all chunks and back, whatever the others do.
  double time = 2 * (num_chunks - 1) * split->message, memory = 0, filled = 0, drained = 0;
  for (int s = 0; s < num_chunks; ++s)
    time += chunks[static_cast<std::size_t>(s)].f + backward(chunks[static_cast<std::size_t>(s)]);
  for (int r = 0; r < c.pp; ++r) {
    Chunk held;
    for (int v = 0; v < c.virtual_stages; ++v)
      held.add(chunks[static_cast<std::size_t>(is_v_shaped && v % 2 == 1 ? (v + 1) * c.pp - 1 - r : v * c.pp + r)]);
    // A coordinate starts when its first chunk's input has come through those before, and behind its last input
    // gradient that runs back through them; weight gradients of their own may wait behind it.
    const double both = splits_b ? held.i + held.w : held.b;
    const double work = std::max(M * (held.f + both), M * (held.f + backward(held)) + drained);
    // Of the parameters on a rank, as much as a stage from `from` on leaves.
    const auto left = [&](int from) {
      const Elements& e = held.elements;
      return c.zero >= from ? e.dense / shards + e.experts / expert_shards : e.dense + e.experts;
    };
    const double states = left(1);
    double tail = optimizer_time(dtype, statistic_of(dtype), states, device).value;
    const Collectives::Times& moved = collectives.of(held);
    tail += moved.rest + (c.zero == 1 || c.zero == 2 ? moved.gather : 0);
    // The stream of collectives runs beside computation but for the time before this coordinate's first input, and for
    // what is waited for anyway; beside it each second of computation takes 1 + interference.
    const double beside = std::max(0.0, moved.stream - filled) / (1 + interference);
    time = std::max(time, std::max(filled + work + interference * beside, moved.stream) + tail);
    const Chunk& first = chunks[static_cast<std::size_t>(r)];
    filled += first.f + split->message, drained += backward(first) + split->message;

    // Of the last chunk a part is free again at the peak.
    const double live = std::max(1.0, live_chunks(c, r, is_v_shaped) - 1);
    // With ZeRO 3 the largest bucket that is a shard is whole at some time, parameters and gradients.
    const double whole =
        c.zero < 3 ? 0 : std::max(shards > 1 ? held.largest.dense : 0, expert_shards > 1 ? held.largest.experts : 0);
    const double parameters = left(3) + whole, gradients = left(2) + whole;
    memory = std::max(memory, held.kept / c.virtual_stages * live + parameters * t.parameter + gradients * t.gradient +
                                  states * t.state);
  }
  // Rounded down, so that they stay bounds.
  c.bound = std::nextafter(static_cast<float>(time), 0.0F);
  c.memory = std::nextafter(static_cast<float>(memory + static_cast<double>(device.reserve.value)), 0.0F);
  return true;
}

}  // namespace sextant
