#include <algorithm>
#include <cmath>
#include <numeric>

#include "sextant/base/errors.h"
#include "sextant/plan/pipeline_parallel.h"
#include "sextant/planner/planner.h"

namespace sextant {
namespace {

// What a unit costs, split in one way, for one microbatch on one rank.
struct UnitCost {
  double f = 0, i = 0, w = 0;  // seconds
  double kept = 0;             // bytes from F to the end of its backward pass, its input included
  double elements = 0;         // parameters on a rank
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

  Tables(const Request& r, const Space& s) : request(r), space(s), network(r.cluster) {
    const Model any = build_model(r.model, {1, r.workload.sequence, r.workload.dtype});
    std::vector<const Layer*> distinct;
    for (const Layer& layer : any.layers) {
      std::size_t c = 0;
      while (c < distinct.size() && !is_alike(*distinct[c], layer)) ++c;
      if (c == distinct.size()) distinct.push_back(&layer);
      class_of.push_back(static_cast<int>(c));
    }
    num_sizes = s.microbatch_sizes.size();
    splits.resize(s.tp.size() * s.cp.size() * num_sizes * s.recomputes.size());
    std::vector<std::size_t> representative;
    for (std::size_t c = 0; c < distinct.size(); ++c)
      representative.push_back(static_cast<std::size_t>(
          std::find(class_of.begin(), class_of.end(), static_cast<int>(c)) - class_of.begin()));
    for (std::size_t b = 0; b < num_sizes; ++b) {
      const Model model = build_model(r.model, {s.microbatch_sizes[b], r.workload.sequence, r.workload.dtype});
      for (std::size_t t = 0; t < s.tp.size(); ++t)
        for (std::size_t c = 0; c < s.cp.size(); ++c)
          for (std::size_t k = 0; k < s.recomputes.size(); ++k)
            if (s.tp[t] * s.cp[c] <= r.devices)
              fill(splits[index(t, c, b, k)], model, representative, s.tp[t], s.cp[c], s.recomputes[k]);
    }
  }

  std::size_t index(std::size_t t, std::size_t c, std::size_t b, std::size_t k) const {
    return ((t * space.cp.size() + c) * num_sizes + b) * space.recomputes.size() + k;
  }

  static bool is_alike(const Layer& a, const Layer& b) {
    return a.nodes.size() == b.nodes.size() && a.parameters.size() == b.parameters.size() &&
           (a.index < 0) == (b.index < 0) && (a.index >= 0 || a.name == b.name) &&
           std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(),
                      [](const Node& x, const Node& y) { return x.op->kind() == y.op->kind(); }) &&
           same_window(a, b);
  }
  static bool same_window(const Layer& a, const Layer& b) {
    for (std::size_t n = 0; n < a.nodes.size(); ++n) {
      const auto* x = dynamic_cast<const Attention*>(a.nodes[n].op.get());
      const auto* y = dynamic_cast<const Attention*>(b.nodes[n].op.get());
      if (x && y && x->rule.window != y->rule.window) return false;
    }
    return true;
  }

  void fill(SplitCost& out, const Model& model, const std::vector<std::size_t>& representative, int tp, int cp,
            const Recompute& recompute) {
    Candidate c;
    c.tp = static_cast<std::int16_t>(tp), c.cp = static_cast<std::int16_t>(cp);
    const Plan plan = plan_of(c, space);
    if (request.workload.sequence % (std::int64_t{tp} * cp) != 0) return;
    for (const std::size_t unit_index : representative) {
      const Layer& layer = model.layers[unit_index];
      LayerSplit split = split_of(plan);
      if (layer.index >= 0) split.recompute = recompute;
      const Unit unit = lower(layer, split);
      const UnitPrice price = price_unit(
          unit, split.mesh, request.workload.dtype == DType::kBf16 ? DType::kF32 : request.workload.dtype, network);
      UnitCost cost{price[0].total().value, price[1].total().value, price[2].total().value};
      for (std::size_t slot = 0; slot < unit.slots.size(); ++slot)
        if (unit.slots[slot].life == Life::kKept || static_cast<int>(slot) == unit.input)
          cost.kept += static_cast<double>(local_bytes(unit.slots[slot].spec, split.mesh).value);
      for (const Slot& slot : unit.slots)
        if (slot.life == Life::kParameter) cost.elements += static_cast<double>(local_elements(slot.spec, split.mesh));
      out.classes.push_back(cost);
      if (unit.output >= 0)
        out.message = network
                          .message(local_bytes(unit.slots[static_cast<std::size_t>(unit.output)].spec, split.mesh),
                                   std::max(1, tp * cp))
                          .value;
    }
  }
};

Estimator::Estimator(const Request& request, const Space& space) : tables_(std::make_unique<Tables>(request, space)) {}
Estimator::~Estimator() = default;

bool Estimator::price(Candidate& c) const {
  const Tables& t = *tables_;
  const auto place = [](const auto& list, auto value) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), value) - list.begin());
  };
  const SplitCost& split = t.splits[t.index(place(t.space.tp, int{c.tp}), place(t.space.cp, int{c.cp}),
                                            place(t.space.microbatch_sizes, std::int64_t{c.microbatch_size}),
                                            static_cast<std::size_t>(c.recompute))];
  if (split.classes.empty()) return false;
  const int P = c.pp, V = c.virtual_stages, units = static_cast<int>(t.class_of.size()), chunks = P * V;
  if (chunks > units) return false;
  const int M = c.num_microbatches;
  const bool is_v_shaped = t.space.schedules[static_cast<std::size_t>(c.schedule)] == "zb-v";
  const bool splits_b = t.space.schedules[static_cast<std::size_t>(c.schedule)].substr(0, 2) == "zb";
  const double zero = c.dp * c.cp;

  // Chunks of balanced_stages, as sums over classes: `f`, `b` of a chunk, and what its rank holds.
  struct Chunk {
    double f = 0, b = 0, i = 0, kept = 0, elements = 0, largest = 0, gathered = 0;
  };
  constexpr int kMostChunks = 512;
  constexpr double kLiveUnits = 2;  // Plan::live_units
  if (chunks > kMostChunks) return false;
  static thread_local std::array<Chunk, kMostChunks> all;
  const int base = units / chunks, more = units % chunks;
  int unit = 0;
  for (int s = 0; s < chunks; ++s) {
    // The first and the last stages get one more, from the ends inwards: as balanced_stages.
    const int from_end = std::min(2 * s, 2 * (chunks - 1 - s) + 1);
    const int size = base + (from_end < more ? 1 : 0);
    Chunk& chunk = all[static_cast<std::size_t>(s)] = {};
    for (int u = 0; u < size; ++u, ++unit) {
      const UnitCost& cost = split.classes[static_cast<std::size_t>(t.class_of[static_cast<std::size_t>(unit)])];
      chunk.f += cost.f, chunk.b += cost.i + cost.w, chunk.i += cost.i;
      chunk.kept += cost.kept, chunk.elements += cost.elements, chunk.largest = std::max(chunk.largest, cost.elements);
    }
  }
  const Device& device = t.request.cluster.device;
  const double parameter = static_cast<double>(size_of(t.request.workload.dtype));
  const double gradient = t.request.workload.dtype == DType::kBf16 ? 4 : parameter;
  const double state = static_cast<double>(adamw_state(t.request.workload.dtype).value);
  const auto gather_time = [&](double elements) {
    return t.network
        .collective(CollectiveKind::kAllGather, {static_cast<std::int64_t>(elements * parameter)}, {c.tp, c.dp * c.cp})
        .time.value;
  };
  const auto reduce_time = [&](double elements) {
    return t.network
        .collective(c.zero == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter,
                    {static_cast<std::int64_t>(elements * gradient)}, {c.tp, c.dp * c.cp})
        .time.value;
  };
  double time = 0, memory = 0, filled = 0, drained = 0;
  // Most ranks hold as much as the one before: the same collectives again.
  double priced = -1, gather = 0, reduce = 0, stream = 0;
  for (int r = 0; r < P; ++r) {
    Chunk held;
    for (int v = 0; v < V; ++v) {
      const int chunk = is_v_shaped && v % 2 == 1 ? (v + 1) * P - 1 - r : v * P + r;
      const Chunk& one = all[static_cast<std::size_t>(chunk)];
      held.f += one.f, held.b += one.b, held.i += one.i, held.kept += one.kept, held.elements += one.elements;
      held.largest = std::max(held.largest, one.largest);
      // ZeRO 3: a pass through a chunk finds at most so many of its units gathered already.
      held.gathered += std::max(0.0, one.elements - kLiveUnits * one.largest);
    }
    // A rank starts when its first chunk's input has come through those before, and behind its last backward pass the
    // gradient runs back through them.
    // Weight gradients of their own may wait behind that.
    const double work = std::max(M * (held.f + held.b), M * (held.f + (splits_b ? held.i : held.b)) + drained);
    double tail =
        device.launch.value + held.elements / (c.zero >= 1 ? zero : 1) *
                                  (6 * (parameter == 2 ? 4 : parameter) + gradient + (parameter == 2 ? 2 : 0)) /
                                  (device.bandwidth * device.memory_share);
    if (zero > 1 && held.elements != priced) {
      priced = held.elements, gather = gather_time(priced), reduce = reduce_time(priced);
      // The stream of collectives has to hold all of them: with ZeRO 2 a reduction for each microbatch, with ZeRO 3
      // gathers for each pass through a chunk too.
      stream = c.zero >= 2 ? M * V * reduce_time(priced / V) : reduce;
      if (c.zero == 3) stream += gather + std::max(0, 2 * M * V - 2) * gather_time(held.gathered / V);
    }
    if (c.zero == 1 || c.zero == 2) tail += gather;
    const double rank_time = std::max(filled + work, stream) + tail;
    time = std::max(time, rank_time);
    const Chunk& first = all[static_cast<std::size_t>(r)];
    filled += first.f + split.message;
    drained += (splits_b ? first.i : first.b) + split.message;

    double live = 1;
    if (V == 1)
      live = std::min(M, P - r);
    else if (is_v_shaped)
      live = std::min(2 * M, P);
    else
      live = std::min(M * V, (V - 1) * std::min(P, M) + 2 * (P - 1 - r) + 1);
    double bytes = held.kept / V * std::max(1.0, live - 1);  // of the last one a part is free again at the peak
    const double whole = c.zero == 3 ? held.elements / zero + held.largest : held.elements;
    bytes += whole * parameter + held.elements / (c.zero >= 1 ? zero : 1) * state;
    bytes += (c.zero >= 2 ? held.elements / zero + (c.zero == 3 ? held.largest : 0) : held.elements) * gradient;
    memory = std::max(memory, bytes);
  }
  // One microbatch runs through all chunks and back, whatever the others do.
  double chain = 2 * (chunks - 1) * split.message;
  for (int s = 0; s < chunks; ++s) {
    const Chunk& chunk = all[static_cast<std::size_t>(s)];
    chain += chunk.f + (splits_b ? chunk.i : chunk.b);
  }
  c.bound = static_cast<float>(std::max(time, chain));
  c.memory = static_cast<float>(memory + static_cast<double>(device.reserve.value));
  return true;
}

}  // namespace sextant
