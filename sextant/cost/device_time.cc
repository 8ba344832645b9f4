#include "sextant/cost/device_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sextant/base/errors.h"
#include "sextant/ops/convert.h"
#include "sextant/ops/head.h"

namespace sextant {
namespace {

// Halves of the largest tile, and how fast each runs against it: half the area reads a third more operands.
struct TileChoice {
  double m, n, speed;
};
constexpr TileChoice kTiles[] = {{1, 1, 1},         {0.5, 1, 0.94},    {1, 0.5, 0.94},   {0.5, 0.5, 0.86},
                                 {0.25, 0.5, 0.72}, {0.5, 0.25, 0.72}, {0.25, 0.25, 0.6}};
// A contraction is cut when its tiles are too few for the units.
constexpr double kCuts[] = {1, 2, 4, 8};

bool is_attention(std::string_view kind) { return kind == "attention" || kind == "latent_attention"; }

}  // namespace

Seconds product_time(const Product& p, DType dtype, const Device& device, ProductType type) {
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) return {};
  const bool fp8 = type == ProductType::kFp8;
  const double peak = (fp8 ? device.fp8 * device.fp8_ceiling : device.peak(dtype) * device.matmul_ceiling) *
                      device.sustained,
               units = device.units;
  double best = std::numeric_limits<double>::max();
  for (const TileChoice& tile : kTiles) {
    const double m = std::max(1.0, device.tile[0] * tile.m), n = std::max(1.0, device.tile[1] * tile.n);
    const double tiles = std::ceil(p.m / m) * std::ceil(p.n / n) * p.count;
    for (const double cut : kCuts) {
      if (cut > 1 && (p.k / cut < 512 || tiles >= units)) break;
      const double waves = std::ceil(tiles * cut / units);
      best = std::min(best, waves * units * 2 * m * n * (p.k / cut + device.half_depth) / (peak * tile.speed));
    }
  }
  const double element = static_cast<double>(size_of(dtype));
  const double bytes = element * p.count * (p.m * p.k + p.k * p.n + p.m * p.n);
  return {std::max(best, bytes / (device.bandwidth * device.memory_share))};
}

Seconds step_time(const Unit& unit, const Step& step, const MeshSizes& mesh, DType gradient_dtype,
                  const Device& device) {
  const std::vector<TensorSpec> in = local_inputs(unit, step, mesh);
  // Conversions are views, slices that are read where they lie, or collectives, which the network prices. A rank that
  // moves bytes itself packs and unpacks what does not lie together: each of these reads and writes once.
  if (dynamic_cast<const Convert*>(step.op.get())) {
    if (device.overlaps) return {};
    const auto packed = static_cast<double>(step.op->scratch(step.pass, in, 1).value);
    return {2 * packed / (device.bandwidth * device.memory_share)};
  }
  const DType dtype = [&] {
    for (const TensorSpec& spec : in)
      if (spec.is_float()) return spec.dtype;
    return DType::kF32;
  }();
  double time = device.launch.value;
  const auto measured = device.rates.find(str(step.op->kind(), " ", name_of(step.pass)));
  if (measured != device.rates.end()) {
    const Work work = step.op->work(step.pass, in);
    // Products leave out rows that nobody visits.
    const double amount =
        step.op->is_product() ? work.flops_causal / room_of(in) : static_cast<double>((work.read + work.written).value);
    return {time + amount / measured->second};
  }
  const std::vector<Product> products = step.op->products(step.pass, in);
  if (is_attention(step.op->kind())) {
    for (const Product& p : products)
      time += p.flops() / (device.peak(dtype) * device.matmul_ceiling * device.sustained * device.attention_ceiling) *
              (1 + 32 / p.m);
    return {time};
  }
  const double rate = device.bandwidth * device.memory_share;
  const ProductType type = step.op->product_type();
  for (const Product& p : products) time += product_time(p, dtype, device, type).value;
  // The activations' side is read in its own type and written in fp8; weights are cast once for many microbatches.
  if (type == ProductType::kFp8)
    time += products[0].m * products[0].k * products[0].count * static_cast<double>(size_of(dtype) + 1) / rate +
            device.launch.value;
  const Work work = step.op->work(step.pass, in);
  if (const auto* head = dynamic_cast<const Head*>(step.op.get());
      products.empty() || (head && head->rule.stored_logits)) {
    time += static_cast<double>((work.read + work.written).value) / rate;
  } else if (step.pass == Pass::kW) {
    // The sum is read and written in the gradients' type.
    time += products[0].m * products[0].n * products[0].count * static_cast<double>(size_of(gradient_dtype)) / rate;
  }
  return {time};
}

Seconds optimizer_time(DType dtype, DType gradient_dtype, double elements, const Device& device) {
  const auto measured = device.rates.find("optimizer");
  const DType value = statistic_of(dtype);
  const std::int64_t bytes = 3 * 2 * size_of(value) + size_of(gradient_dtype) + (dtype == value ? 0 : size_of(dtype));
  const double rate = measured != device.rates.end() ? measured->second : device.bandwidth * device.memory_share;
  return {device.launch.value + elements * static_cast<double>(bytes) / rate};
}

}  // namespace sextant
